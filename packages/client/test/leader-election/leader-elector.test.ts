import type { KubeObject } from '@oarlock/api/object';
import { leases } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { LeaderElector, type LeaderElectionOptions } from '@oarlock/client/leader-election/leader-elector';
import { leaderElectionMetrics } from '@oarlock/client/leader-election/leader-election-metrics';
import type { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, sequence } from '@oarlock/testing/memory-api';
import { Registry } from 'prom-client';
import { beforeEach, describe, expect, it } from 'vitest';

const at = { namespace: 'kube-system', name: 'ctl' };

describe('LeaderElector', () => {
  let clock: FakeClock;
  let api: ReturnType<typeof memoryApi>;
  let log: string[];
  beforeEach(() => {
    clock = new FakeClock();
    api = memoryApi({ clock });
    log = [];
  });

  const candidate = (identity: string, more: Partial<LeaderElectionOptions> = {}) => {
    const abort = new AbortController();
    const elector = new LeaderElector({
      client: api.client(identity),
      clock,
      random: sequence(identity.charCodeAt(0)),
      lease: at,
      identity,
      async onStartedLeading(signal) {
        log.push(`${identity} leads`);
        await new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => resolve());
        });
        log.push(`${identity} ends`);
      },
      ...more,
    });
    const run = elector.run(abort.signal);
    run.catch(() => undefined);
    return {
      elector,
      stop: async () => {
        abort.abort();
        await run;
      },
      run,
    };
  };
  const spec = () => api.object(leases, at)?.spec;

  it('reports in a metric whether it leads', async () => {
    const registry = new Registry();
    const status = async () => /^leader_election_master_status\{name="ctl"\} (.)$/m.exec(await registry.metrics())?.[1];
    const a = candidate('a', { metrics: leaderElectionMetrics(registry, at.name) });
    expect(await status()).toBe('0');
    await clock.settle();
    expect(await status()).toBe('1');
    await a.stop();
    expect(await status()).toBe('0');
  });

  it('acquires the lease, renews it every two seconds and releases it', async () => {
    const a = candidate('a');
    await clock.settle();
    expect(log).toEqual(['a leads']);
    expect(spec()).toEqual({
      holderIdentity: 'a',
      leaseDurationSeconds: 15,
      leaseTransitions: 0,
      acquireTime: '2026-01-01T00:00:00.000000Z',
      renewTime: '2026-01-01T00:00:00.000000Z',
    });
    await clock.advance(2000);
    expect(spec()).toMatchObject({ acquireTime: '2026-01-01T00:00:00.000000Z', renewTime: '2026-01-01T00:00:02.000000Z' });
    expect(a.elector.isLeader).toBe(true);
    await a.stop();
    expect(log).toEqual(['a leads', 'a ends']);
    expect(spec()).toMatchObject({ holderIdentity: '', leaseDurationSeconds: 1 });
    expect(clock.pending).toBe(0);
  });

  it('records events at the beginning and the end of a term', async () => {
    const recorded: string[] = [];
    const events = {
      event: (about: KubeObject, type: string, reason: string, message: string) => {
        recorded.push(`${about.kind} ${about.metadata?.namespace}/${about.metadata?.name} ${type} ${reason} ${message}`);
      },
    };
    const a = candidate('a', { events });
    await clock.settle();
    await a.stop();
    expect(recorded).toEqual([
      'Lease kube-system/ctl Normal LeaderElection a became leader',
      'Lease kube-system/ctl Normal LeaderElection a stopped leading',
    ]);
  });

  it('elects one leader at a time; the next one acquires the released lease', async () => {
    const a = candidate('a');
    await clock.settle();
    const leaders: string[] = [];
    const b = candidate('b', { onNewLeader: (identity) => leaders.push(identity) });
    await clock.advance(60_000);
    expect(log).toEqual(['a leads']);
    expect(b.elector.leader).toBe('a');
    await a.stop();
    await clock.runUntil(() => b.elector.isLeader, { within: 5000 });
    expect(spec()).toMatchObject({ holderIdentity: 'b', leaseTransitions: 1 });
    expect(leaders).toEqual(['a', 'b']);
    await b.stop();
  });

  it('replaces an unresponsive leader after the lease duration, measured by its own clock', async () => {
    api.seed(leases, {
      metadata: at,
      spec: { holderIdentity: 'dead', leaseDurationSeconds: 15, renewTime: '2031-01-01T00:00:00.000000Z', leaseTransitions: 4 },
    });
    const b = candidate('b');
    await clock.advance(14_900);
    expect(log).toEqual([]);
    await clock.advance(5000);
    expect(log).toEqual(['b leads']);
    expect(spec()?.leaseTransitions).toBe(5);
    await b.stop();
  });

  it('ends its term at the renew deadline, before the lease expires, and campaigns again', async () => {
    const a = candidate('a');
    await clock.settle();
    api.failNext(({ resource, identity }) => resource === leases && identity.name === 'a', failure('ServiceUnavailable', 'down'), 100);
    const b = candidate('b');
    let ended = 0;
    await clock.runUntil(
      () => {
        if (!a.elector.isLeader && ended === 0) ended = clock.monotonic();
        return b.elector.isLeader;
      },
      { within: 60_000 },
    );
    expect(ended).toBeGreaterThan(9000);
    expect(ended).toBeLessThanOrEqual(12_000);
    expect(log).toEqual(['a leads', 'a ends', 'b leads']);
    await b.stop();
    await clock.runUntil(() => a.elector.isLeader, { within: 600_000 });
    await a.stop();
  });

  it('ends its term at the deadline even if the renewal hangs', async () => {
    let hang = false;
    const client = api.client();
    const stuck = {
      ...client,
      get: client.get.bind(client),
      create: client.create.bind(client),
      update: (...args: Parameters<typeof client.update>) => (hang ? new Promise<never>(() => {}) : client.update(...args)),
    } as typeof client;
    const a = candidate('a', { client: stuck });
    await clock.settle();
    hang = true;
    await clock.runUntil(() => log.includes('a ends'), { within: 10_000 });
    expect(clock.monotonic()).toBe(10_000);
    const stopped = a.stop();
    await clock.advance(2000); // the release of the lease hangs too
    await stopped;
  });

  /** Returns a client with update requests that hang while `hangs()` is true; the write is committed if `commits`. */
  const hanging = (hangs: () => boolean, { commits = false } = {}): { readonly client: Client; readonly updates: number[] } => {
    const client = api.client('a');
    const updates: number[] = [];
    const update: Client['update'] = async (resource, object, options) => {
      updates.push(clock.monotonic());
      if (!hangs()) return client.update(resource, object, options);
      if (commits) await client.update(resource, object);
      return new Promise((_, reject) => options?.signal?.addEventListener('abort', () => reject(options.signal?.reason as Error)));
    };
    return { updates, client: { ...client, get: client.get.bind(client), create: client.create.bind(client), update } as Client };
  };

  it('spends at most half of the renew deadline on an attempt and keeps the lease if the next one succeeds', async () => {
    const { client, updates } = hanging(() => clock.monotonic() < 7000);
    const a = candidate('a', { client });
    await clock.advance(30_000);
    expect(updates.slice(0, 3)).toEqual([2000, 7000, 9000]);
    expect(log).toEqual(['a leads']);
    await a.stop();
  });

  it('keeps the lease if a renewal that timed out was committed', async () => {
    const { client } = hanging(() => clock.monotonic() < 7000, { commits: true });
    const a = candidate('a', { client });
    await clock.advance(30_000);
    expect(log).toEqual(['a leads']);
    await a.stop();
  });

  it('releases the lease although the cancelled renewal was committed', async () => {
    let hangs = 1;
    const { client } = hanging(() => hangs-- > 0, { commits: true });
    const a = candidate('a', { client });
    await clock.advance(2000);
    const stopped = a.stop();
    await clock.settle();
    await stopped;
    expect(spec()?.holderIdentity).toBe('');
  });

  it('limits an attempt to acquire the lease', async () => {
    let hang = true;
    const client = api.client('a');
    const get: Client['get'] = (resource, name, options) => (hang ? new Promise<never>(() => {}) : client.get(resource, name, options));
    const a = candidate('a', {
      client: { ...client, get, create: client.create.bind(client), update: client.update.bind(client) } as Client,
    });
    await clock.advance(1000);
    hang = false;
    await clock.runUntil(() => a.elector.isLeader, { within: 10_000 });
    await a.stop();
  });

  it('ends its term immediately if another candidate holds the lease', async () => {
    const a = candidate('a');
    await clock.settle();
    await api.client().patch(leases, at, 'merge', { spec: { holderIdentity: 'thief', renewTime: '2026-01-01T00:00:01.000000Z' } });
    await clock.advance(2000);
    expect(log).toEqual(['a leads', 'a ends']);
    await a.stop();
    expect(spec()?.holderIdentity).toBe('thief');
  });

  it('survives a write of another client to its own lease', async () => {
    const a = candidate('a');
    await clock.settle();
    await api.client().patch(leases, at, 'merge', { metadata: { labels: { x: 'y' } } });
    await clock.advance(30_000);
    expect(log).toEqual(['a leads']);
    expect(api.object(leases, at)?.metadata?.labels).toEqual({ x: 'y' });
    await a.stop();
  });

  it('releases the lease and rejects if the work fails', async () => {
    const a = candidate('a', { onStartedLeading: () => Promise.reject(new Error('no work')) });
    await expect(a.run).rejects.toThrow('no work');
    expect(spec()?.holderIdentity).toBe('');
  });

  it('rejects unsafe durations', () => {
    expect(() => candidate('a', { leaseDurationMs: 10_000 })).toThrow('duration > deadline');
  });
});
