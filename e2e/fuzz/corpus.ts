import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Inputs that once failed, or that reach a branch which mutations seldom reach. A file per target. */
const directory = join(import.meta.dirname, 'corpus');

type Stored = { readonly text: string } | { readonly base64: string } | { readonly json: unknown };

const fileOf = (target: string): string => join(directory, `${target.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}.json`);

function decode(stored: Stored): unknown {
  if ('text' in stored) return stored.text;
  return 'base64' in stored ? Buffer.from(stored.base64, 'base64') : stored.json;
}

function encode(input: unknown): Stored {
  if (typeof input === 'string') return { text: input };
  return Buffer.isBuffer(input) ? { base64: input.toString('base64') } : { json: input };
}

const stored = (target: string): readonly Stored[] =>
  existsSync(fileOf(target)) ? (JSON.parse(readFileSync(fileOf(target), 'utf8')) as readonly Stored[]) : [];

/** Returns the inputs of a target. */
export const readCorpus = (target: string): readonly unknown[] => stored(target).map(decode);

/** Adds an input to the corpus of a target and returns the file. */
export function saveInput(target: string, input: unknown): string {
  const inputs = [...stored(target).map((each) => JSON.stringify(each)), JSON.stringify(encode(input))];
  mkdirSync(directory, { recursive: true });
  writeFileSync(fileOf(target), `[\n  ${[...new Set(inputs)].join(',\n  ')}\n]\n`);
  return fileOf(target);
}
