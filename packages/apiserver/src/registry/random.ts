import { randomUUID } from 'node:crypto';

/** A source of randomness for names, uids, addresses and jitter. */
export interface RandomSource {
  /** Returns a random number in [0, 1). */
  next(): number;
  /** Returns a random UUID of version 4 (RFC 9562). */
  uuid(): string;
}

export const systemRandom: RandomSource = { next: Math.random, uuid: randomUUID };

/** Returns a RandomSource whose values are derived from one generator of numbers, so that a test can replay them. */
export function randomFrom(next: () => number): RandomSource {
  const hex = (count: number) => Array.from({ length: count }, () => Math.floor(next() * 16).toString(16)).join('');
  return { next, uuid: () => `${hex(8)}-${hex(4)}-4${hex(3)}-${(8 + Math.floor(next() * 4)).toString(16)}${hex(3)}-${hex(12)}` };
}

const alphabet = 'bcdfghjklmnpqrstvwxz2456789'; // upstream's alphabet: no vowels and no ambiguous characters
const maxGeneratedBaseLength = 58;

/** Returns the name for `metadata.generateName`: `base`, shortened so that the name has at most 63 characters, and five random characters. */
export function generateRandomName(base: string, { next }: RandomSource): string {
  let suffix = '';
  for (let i = 0; i < 5; i++) suffix += alphabet.charAt(Math.floor(next() * alphabet.length));
  return base.slice(0, maxGeneratedBaseLength) + suffix;
}
