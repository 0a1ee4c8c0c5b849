import type { Fields } from '../request.ts';
import type { Exchange } from './probe.ts';

/** Returns the object with two fields that no kind declares. */
export const withUnknown = (object: Fields): Fields => ({
  ...object,
  metadata: { ...(object['metadata'] as Fields | undefined), differUnknown: 1 },
  differUnknown: 1,
});

/** Returns the object as JSON with annotations that are set twice. */
export function withDuplicate({ metadata, ...object }: Fields): string {
  const { annotations: _, ...others } = (metadata ?? {}) as Fields;
  const text = JSON.stringify({ metadata: { annotations: { a: 'last' }, ...others }, ...object });
  return text.replace('"annotations":', '"annotations":{"a":"first"},"annotations":');
}

/** Returns the warnings of an answer about unknown and duplicate fields. */
export const faultsIn = ({ answer }: Exchange): readonly string[] =>
  (answer.headers['warning'] ?? '')
    .split('\n')
    .map((line) => line.replace(/^299 - "(.*)"$/, '$1').replaceAll('\\"', '"'))
    .filter((line) => /^(unknown|duplicate) field |already set in map$/.test(line));
