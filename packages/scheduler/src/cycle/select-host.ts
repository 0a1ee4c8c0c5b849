/** Returns the index of the highest score. If several scores are highest, each is returned with the same probability (reservoir sampling). */
export function selectHost(scores: Float64Array, random: () => number): number {
  let best = 0;
  let equalCount = 1;
  for (let index = 1; index < scores.length; index++) {
    const score = scores[index] ?? 0;
    if (score > (scores[best] ?? 0)) {
      best = index;
      equalCount = 1;
    } else if (score === scores[best] && random() * ++equalCount < 1) best = index;
  }
  return best;
}

/** Returns the indexes of the `count` largest scores, largest first. */
export function indexesOfLargest(scores: Float64Array, count: number): readonly number[] {
  const top: number[] = [];
  for (let index = 0; index < scores.length; index++) {
    const score = scores[index] ?? 0;
    if (top.length === count && score <= (scores[top[count - 1] ?? 0] ?? 0)) continue;
    let position = top.length;
    while (position > 0 && (scores[top[position - 1] ?? 0] ?? 0) < score) position--;
    top.splice(position, 0, index);
    if (top.length > count) top.pop();
  }
  return top;
}
