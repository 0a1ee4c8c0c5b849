import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it, vi } from 'vitest';
import { kubeletConfig } from '../../../../src/config/kubelet-config.ts';
import { IdleTimeout } from '../../../../src/server/streaming/internal/idle-timeout.ts';

describe('an idle timeout', () => {
  it('expires once, when nothing was active for its time', async () => {
    const clock = new FakeClock();
    const expire = vi.fn();
    const idle = new IdleTimeout({ clock, timeoutMs: 1000 }, expire);
    await clock.advance(900);
    idle.active();
    await clock.advance(999);
    expect(expire).not.toHaveBeenCalled();
    await clock.advance(1);
    expect(expire).toHaveBeenCalledTimes(1);
    await clock.advance(10_000);
    expect([expire.mock.calls.length, clock.pending]).toEqual([1, 0]);
  });

  it('has no timer with the time 0 or after it was cancelled, also between two periods', async () => {
    const clock = new FakeClock();
    const expire = vi.fn();
    new IdleTimeout({ clock, timeoutMs: 0 }, expire).active();
    expect(clock.pending).toBe(0);
    const idle = new IdleTimeout({ clock, timeoutMs: 1000 }, expire);
    await clock.advance(500);
    idle.active();
    await clock.advance(600);
    idle.cancel();
    expect(clock.pending).toBe(0);
    await clock.advance(10_000);
    expect(expire).not.toHaveBeenCalled();
  });

  it('is four hours by default, as upstream', () => {
    expect(kubeletConfig.parse({ nodeName: 'node-a' }).streamingConnectionIdleTimeoutMs).toBe(4 * 3_600_000);
  });
});
