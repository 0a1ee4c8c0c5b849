import { errorText } from '@oarlock/primitives/error-text';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import { within } from '../common/within.ts';

/** Time in seconds for all parts together, which are read at the same time: an API server without its storage holds most requests for a minute. */
const timeoutSeconds = 4;

/** The parts of a state that could be read, and for each other part a sentence with the reason. */
export interface ReadParts<T> {
  readonly parts: Partial<T>;
  readonly failures: readonly string[];
}

/** Reads parts of a state at the same time. A part that fails or does not answer in time does not hide the others. */
export async function readParts<T extends object>(
  readers: { readonly [name in keyof T]: () => Promise<T[name]> },
  clock: Pick<Clock, 'after'> = systemClock,
): Promise<ReadParts<T>> {
  const parts: Partial<T> = {};
  const read = async (name: keyof T & string): Promise<readonly string[]> => {
    try {
      parts[name] = await within(readers[name](), {
        seconds: timeoutSeconds,
        clock,
        error: () => new Error(`no answer within ${timeoutSeconds} s`),
      });
      return [];
    } catch (error) {
      return [`${name}: ${errorText(error)}`];
    }
  };
  const failures = await Promise.all((Object.keys(readers) as (keyof T & string)[]).map(read));
  return { parts, failures: failures.flat() };
}
