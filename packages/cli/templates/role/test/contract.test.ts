import { roleContract } from '@oarlock/spi/role/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { expect, it } from 'vitest';
import { Heartbeat } from '../src/heartbeat.ts';

roleContract('__ID__', () => {
  const clock = new FakeClock();
  const role = new Heartbeat({ clock, everyMs: 1000, beat: () => {} });
  return { role, settle: () => clock.settle(), countResources: () => ({ timers: clock.pending }), dispose: () => role.stop() };
});

it('calls beat while it runs, and not after stop', async () => {
  const clock = new FakeClock();
  const beats: number[] = [];
  const role = new Heartbeat({ clock, everyMs: 1000, beat: (count) => beats.push(count) });
  await role.start(new AbortController().signal);
  await clock.advance(3500);
  await role.stop();
  await clock.advance(3500);
  expect(beats).toEqual([1, 2, 3]);
});
