import { randomUUID } from 'node:crypto';

/** Where names, uids, addresses and jitter come from. */
export interface Random {
  /** At least 0, less than 1. */
  next(): number;
  /** RFC 9562, version 4. */
  uuid(): string;
}

export const systemRandom: Random = { next: Math.random, uuid: randomUUID };

/** Everything from one source of numbers, so that a test can repeat it. */
export function randomFrom(next: () => number): Random {
  const hex = (count: number) => Array.from({ length: count }, () => Math.floor(next() * 16).toString(16)).join('');
  return { next, uuid: () => `${hex(8)}-${hex(4)}-4${hex(3)}-${(8 + Math.floor(next() * 4)).toString(16)}${hex(3)}-${hex(12)}` };
}

const alphabet = 'bcdfghjklmnpqrstvwxz2456789'; // no vowels, and nothing that reads alike
const maxBase = 58;

/** `metadata.generateName`, completed: at most 63 characters, the last five random. */
export function generatedName(base: string, { next }: Random): string {
  let suffix = '';
  for (let i = 0; i < 5; i++) suffix += alphabet.charAt(Math.floor(next() * alphabet.length));
  return base.slice(0, maxBase) + suffix;
}
