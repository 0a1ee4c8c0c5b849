import { describe, expect, it } from 'vitest';
import { ApiError } from '../../src/api/client.ts';
import { repeatUnanswered } from '../../src/api/repeat-unanswered.ts';

const lost = new TypeError('network error');
const denied = new ApiError(403, 'Forbidden', 'no');

/** Returns a read with these results, one after the other, and how often it was called. */
function reads(...results: readonly (string | Error)[]) {
  let count = 0;
  const read = async (): Promise<string> => {
    const result = results[count] ?? lost;
    count += 1;
    if (typeof result === 'string') return result;
    throw result;
  };
  return { read, calls: () => count };
}

describe('repeatUnanswered', () => {
  const { signal } = new AbortController();
  const noWait = async () => undefined;

  it('repeats a read whose connection was lost', async () => {
    const { read, calls } = reads(lost, lost, 'value');
    expect(await repeatUnanswered(read, signal, noWait)).toBe('value');
    expect(calls()).toBe(3);
  });

  it('reports an answer of the server at once', async () => {
    const { read, calls } = reads(denied, 'value');
    await expect(repeatUnanswered(read, signal, noWait)).rejects.toBe(denied);
    expect(calls()).toBe(1);
  });

  it('fails after three repeats, and at once when the caller has aborted it', async () => {
    const failing = reads();
    await expect(repeatUnanswered(failing.read, signal, noWait)).rejects.toBe(lost);
    expect(failing.calls()).toBe(4);
    const aborted = reads();
    await expect(repeatUnanswered(aborted.read, AbortSignal.abort(), noWait)).rejects.toBe(lost);
    expect(aborted.calls()).toBe(1);
  });
});
