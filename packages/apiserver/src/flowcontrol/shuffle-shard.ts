/** A number of 53 bits out of a text; the same text always gives the same one. FNV-1a, twice over. */
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
 * Deals `handSize` different cards of a deck, by a hash: flows with different hashes seldom get the same hand. The digits of the hash to
 * the bases deck, deck - 1, ... name the cards.
 */
export function shuffleShard(hash: number, deckSize: number, handSize: number): readonly number[] {
  const hand: number[] = [];
  let rest = hash;
  for (let i = 0; i < handSize; i += 1) {
    const base = deckSize - i;
    let card = rest % base;
    rest = Math.floor(rest / base);
    // a place among the cards that are left
    for (const taken of [...hand].sort((a, b) => a - b)) if (card >= taken) card += 1;
    hand.push(card);
  }
  return hand;
}
