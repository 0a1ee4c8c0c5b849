import { silentLogger } from '@oarlock/primitives/logger';
import { RuntimeError, type RuntimeEvent } from '@oarlock/spi/runtime';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EventBroadcaster, type ObservedState } from '../../src/events/event-broadcaster.ts';
import { handSource } from '../support/hand-source.ts';

describe('EventBroadcaster', () => {
  let clock: FakeClock;
  let source: ReturnType<typeof handSource>;
  let stop: AbortController;
  let running: Promise<void>;
  let received: (RuntimeEvent | 'resync')[];
  let observe: () => ObservedState;

  beforeEach(async () => {
    clock = new FakeClock();
    source = handSource();
    stop = new AbortController();
    received = [];
    const broadcaster = new EventBroadcaster({
      sources: [source.source],
      clock,
      log: silentLogger,
      refresh: async () => {},
      sandboxOf: async () => 's',
      observe: async () => observe(),
      forget: () => {},
    });
    running = broadcaster.run(stop.signal);
    void (async () => {
      for await (const event of broadcaster.listen(stop.signal)) received.push(event);
    })();
    source.send({ kind: 'live', announcesExec: true });
    await clock.settle();
    received = [];
  });
  afterEach(async () => {
    stop.abort();
    await running;
  });

  const stopped = { type: 'STOPPED', sandboxId: 's', containerId: 'c', at: 1 };
  const send = (event: { readonly killed?: boolean } = {}) => source.send({ kind: 'task', type: 'STOPPED', id: 'c', at: 1, ...event });

  it('emits no event before the CRI service reports its state, even if that takes minutes', async () => {
    observe = () => 'running';
    send();
    await clock.advance(180_000);
    expect(received).toEqual([]);
    observe = () => 'stopped';
    await clock.advance(2_000);
    expect(received).toEqual([stopped]);
  });

  it('emits the event after errors of the CRI service', async () => {
    let errors = 3;
    observe = () => {
      if (errors-- > 0) throw new RuntimeError('DeadlineExceeded', 'no answer');
      return 'stopped';
    };
    send();
    await clock.advance(10_000);
    expect(received).toEqual([stopped]);
  });

  it('does not wait for ever until the CRI service reports that a killed container was out of memory', async () => {
    observe = () => 'stopped';
    source.send({ kind: 'outOfMemory', id: 'c', at: 1 });
    await clock.advance(4_000);
    expect(received).toEqual([]);
    await clock.advance(2_000);
    expect(received).toEqual([stopped]);
  });
});
