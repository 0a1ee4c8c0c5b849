import { describe, expect, it } from 'vitest';
import { requireSynchronizedClock } from '../../src/common/join-discovery.ts';

const server = 'https://10.0.0.1:6443';
const times = (startedAt: number, endedAt: number) => ({ startedAt, endedAt, server });

describe('the clocks of a joining machine and of the server', () => {
  it.each([
    ['equal', 1_000, 1_000],
    ['within the time of the request', 1_000, 100_000],
    ['a minute apart', 61_000, 61_000],
  ])('may be %s', (_, startedAt, endedAt) => {
    expect(() => requireSynchronizedClock(1_000, times(startedAt, endedAt))).not.toThrow();
  });

  it('must not differ by more than a minute', () => {
    expect(() => requireSynchronizedClock(1_000_000, times(1_075_000, 1_076_000))).toThrow(
      `the clock of this machine is 75 s ahead of that of ${server}: synchronize the clocks, for example with NTP, and join again`,
    );
    expect(() => requireSynchronizedClock(1_000_000, times(919_000, 920_000))).toThrow('is 80 s behind that of');
  });
});
