import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { BufferedBackend } from '../src/buffered-backend.ts';

describe('BufferedBackend', () => {
  it('rejects events beyond its length until a batch is sent', async () => {
    const sent: string[] = [];
    const clock = new FakeClock();
    let finishSend: () => void = () => undefined;
    const backend = new BufferedBackend({
      bufferSize: 1_000,
      maxBufferedLength: 10,
      maxSize: 2,
      maxWaitMs: 1_000,
      clock,
      send(batch) {
        sent.push(...batch);
        return new Promise((resolve) => {
          finishSend = resolve;
        });
      },
    });
    expect([backend.add('aaaa'), backend.add('bbbb'), backend.add('cccc')]).toEqual([true, true, false]);
    await clock.advance(0);
    // events that are being sent still count
    expect([sent, backend.add('dddd'), backend.add('ee')]).toEqual([['aaaa', 'bbbb'], false, true]);
    finishSend();
    await clock.advance(0);
    expect(backend.add('ffffffff')).toBe(true);
    expect(backend.add('g')).toBe(false);
  });
});
