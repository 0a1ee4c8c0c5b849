/** Scales scores to the range 0 to 100 in place. With `reverse`, the largest score becomes 0 (DefaultNormalizeScore upstream). */
export function defaultNormalizeScore(scores: Float64Array, reverse: boolean): void {
  let max = 0;
  for (const value of scores) if (value > max) max = value;
  for (let index = 0; index < scores.length; index++) {
    const part = max === 0 ? 0 : Math.floor((100 * (scores[index] ?? 0)) / max);
    scores[index] = reverse ? 100 - part : part;
  }
}
