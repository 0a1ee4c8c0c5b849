import { events } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { beforeEach, describe, expect, it } from 'vitest';
import { ClusterEvents } from '../../src/servers/cluster-events.ts';

const start = Date.UTC(2026, 0, 1);
let clock: FakeClock;
let api: MemoryApi;
let servers: readonly ClusterEvents[];
beforeEach(() => {
  clock = new FakeClock({ start });
  api = memoryApi({ clock });
  servers = ['a', 'b', 'c'].map(() => new ClusterEvents({ client: api.client(), clock, log: silentLogger }));
});

const full = (since = clock.now()) => ({ type: 'Warning', reason: 'EtcdNoSpace', message: 'full', since }) as const;
const storedEvents = () =>
  api.objects(events, 'kube-system').map(({ metadata, type, reason, message, count, firstTimestamp, lastTimestamp }) => ({
    ...{ name: metadata?.name, type, reason, message, count },
    lasted: Date.parse(lastTimestamp ?? '') - Date.parse(firstTimestamp ?? ''),
  }));
const event = { name: 'oarlock-config.etcdnospace', type: 'Warning', reason: 'EtcdNoSpace', message: 'full' };

describe('Events about the cluster', () => {
  it('are written once for all servers that notice an occurrence', async () => {
    for (const server of servers) server.record(full());
    await clock.settle();
    expect(storedEvents()).toEqual([{ ...event, count: 1, lasted: 0 }]);
    await clock.advance(60_000);
    servers[0]?.record(full());
    await clock.settle();
    expect(storedEvents()).toEqual([{ ...event, count: 1, lasted: 0 }]);
  });

  it('are written again at once if another server has written the Event in the meantime', async () => {
    const [first, second] = servers;
    first?.record(full());
    await clock.advance(3_600_000);
    api.failNext({ verb: 'update', resource: events }, failure('Conflict', 'the object has been modified'));
    second?.record(full());
    await clock.advance(1);
    expect(storedEvents()).toEqual([{ ...event, count: 2, lasted: 3_600_000 }]);
  });

  it('increase the count of the Event once for each later occurrence', async () => {
    for (const server of servers) server.record(full());
    await clock.advance(3_600_000);
    for (const server of servers) server.record(full());
    await clock.settle();
    expect(storedEvents()).toEqual([{ ...event, count: 2, lasted: 3_600_000 }]);
  });

  it('are written later if the server does not respond, and not after the end of the process', async () => {
    const [server, stopped] = servers;
    const handle = api.handler.handle.bind(api.handler);
    api.handler.handle = () => {
      throw failure('ServiceUnavailable', 'the storage is full');
    };
    server?.record(full());
    stopped?.record(full());
    await clock.advance(30_000);
    await stopped?.stop();
    api.handler.handle = handle;
    await clock.advance(10_000);
    expect(storedEvents()).toEqual([{ ...event, count: 1, lasted: 0 }]);
  });
});
