/** Returns a 53-bit hash of a text, which combines two FNV-1a hashes. */
export function flowHash(text: string): number {
  let low = 0x811c9dc5;
  let high = 0x01000193;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ (code + i), 0x85ebca6b);
  }
  return (high >>> 11) * 2 ** 32 + (low >>> 0);
}

/**
 * Returns `handSize` different indexes below `deckSize`, chosen by a hash, so that flows with different hashes rarely share all indexes
 * (shufflesharding upstream). The digits of the hash in the bases `deckSize`, `deckSize - 1`, ... select the indexes.
 */
export function shuffleShard(hash: number, deckSize: number, handSize: number): readonly number[] {
  const hand: number[] = [];
  let rest = hash;
  for (let i = 0; i < handSize; i += 1) {
    const base = deckSize - i;
    let card = rest % base;
    rest = Math.floor(rest / base);
    // the index among the remaining cards
    for (const dealt of [...hand].sort((a, b) => a - b)) if (card >= dealt) card += 1;
    hand.push(card);
  }
  return hand;
}
