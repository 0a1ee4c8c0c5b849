import { failure, StatusError } from '@oarlock/api/status';
import { TransportError } from '@oarlock/client/http/connection';
import { isUnavailable, retryTimes, retryUnavailable } from '@oarlock/client/http/retry-unavailable';
import { describe, expect, it } from 'vitest';

/** A clock whose time passes during sleeps only. */
function sleepingClock() {
  const clock = { now: 0, monotonic: () => clock.now, sleep: async (ms: number) => void (clock.now += ms) };
  return clock;
}
const connectionError = (cause: Error) => new StatusError(failure('ServiceUnavailable', 'not reached').status, { cause });
const systemError = (code: string) => Object.assign(new Error(code), { code });

describe('retryUnavailable', () => {
  it('repeats a call until it succeeds, and reports the first error once', async () => {
    const clock = sleepingClock();
    const errors = [failure('Timeout', 'first'), failure('ServiceUnavailable', 'second')];
    const reported: unknown[] = [];
    const [first] = errors;
    const call = async () => {
      const error = errors.shift();
      if (error !== undefined) throw error;
      return 'done';
    };
    expect(await retryUnavailable(call, { clock, onWait: (error) => reported.push(error) })).toBe('done');
    expect(reported).toEqual([first]);
    expect(clock.now).toBe(2 * retryTimes.pauseMs);
  });

  it('gives up after the longest time with the last error', async () => {
    const clock = sleepingClock();
    let calls = 0;
    const call = async () => {
      calls += 1;
      throw failure('ServiceUnavailable', `attempt ${calls}`);
    };
    const attempts = retryTimes.longestMs / retryTimes.pauseMs + 1;
    await expect(retryUnavailable(call, { clock })).rejects.toThrow(`attempt ${attempts}`);
  });

  it('does not repeat a call that is rejected', async () => {
    const call = async () => {
      throw failure('Forbidden', 'no');
    };
    await expect(
      retryUnavailable(call, { clock: { monotonic: () => 0, sleep: () => Promise.reject(new Error('slept')) } }),
    ).rejects.toThrow('no');
  });

  it('ends with the reason of the signal', async () => {
    const abort = new AbortController();
    const call = async () => {
      abort.abort(new Error('stopped'));
      throw failure('ServiceUnavailable', 'later');
    };
    await expect(retryUnavailable(call, { signal: abort.signal })).rejects.toThrow('stopped');
  });
});

describe('isUnavailable', () => {
  it.each([
    ['an overloaded server', failure('TooManyRequests', ''), true],
    ['a timeout of the server', failure('ServerTimeout', ''), true],
    ['a conflict', failure('Conflict', ''), false],
    ['a refused connection', connectionError(new TransportError('ConnectFailed', '', { cause: systemError('ECONNREFUSED') })), true],
    ['a lost connection', connectionError(new TransportError('Lost', '')), true],
    ['an unknown host', connectionError(new TransportError('ConnectFailed', '', { cause: systemError('ENOTFOUND') })), false],
    ['a wrong certificate', connectionError(new TransportError('Lost', '', { cause: systemError('SELF_SIGNED_CERT_IN_CHAIN') })), false],
    ['a malformed answer', connectionError(new TransportError('Malformed', '')), false],
    ['another error', new Error('no'), false],
  ])('%s', (_, error, expected) => {
    expect(isUnavailable(error)).toBe(expected);
  });
});
