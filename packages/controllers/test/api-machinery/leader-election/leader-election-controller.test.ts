import { leaseCandidatesV1beta1, leases } from '@oarlock/api/resources';
import { formatMicroTime } from '@oarlock/api/values/time';
import { LeaderElector } from '@oarlock/client/leader-election/leader-elector';
import { LeaseCandidacy } from '@oarlock/client/leader-election/lease-candidacy';
import { pickBestLeader, pickBestStrategy } from '@oarlock/controllers/api-machinery/leader-election/election';
import { LeaderElectionController } from '@oarlock/controllers/api-machinery/leader-election/leader-election-controller';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, sequence, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runController } from '../../support/run-controller.ts';

const namespace = 'kube-system';
const at = { namespace, name: 'manager' };

describe('LeaderElectionController', () => {
  let clock: FakeClock;
  let api: MemoryApi;
  let abort: AbortController;
  const running: Promise<unknown>[] = [];
  beforeEach(async () => {
    clock = new FakeClock();
    api = memoryApi({ clock });
    abort = new AbortController();
    const controller = new LeaderElectionController(api.informers, clock);
    running.push(runController(controller, { api, clock, signal: abort.signal }));
    await clock.settle();
  });
  afterEach(async () => {
    abort.abort();
    await Promise.allSettled(running.splice(0));
    await api.stop();
  });

  /** A process that takes part in the election. `die` ends it without releasing its lease. */
  const program = (name: string, version: string) => {
    const own = new AbortController();
    const signal = AbortSignal.any([own.signal, abort.signal]);
    const client = api.client(name);
    const parts = { client, clock };
    running.push(
      LeaseCandidacy.ofProgram(version, { ...parts, informers: api.informers, namespace, name, leaseName: at.name }).run(signal),
    );
    const elector = new LeaderElector({
      ...parts,
      random: sequence(name.length),
      lease: at,
      identity: name,
      coordinated: true,
      onStartedLeading: (term) => new Promise((resolve) => term.addEventListener('abort', () => resolve(), { once: true })),
    });
    running.push(elector.run(signal));
    return { elector, die: () => own.abort() };
  };
  const spec = () => api.object(leases, at)?.spec;
  const candidate = (name: string) => api.object(leaseCandidatesV1beta1, { namespace, name });

  it('assigns the lease to the only candidate, which renews it', async () => {
    const a = program('a', 'v1.36.0+oarlock');
    await clock.runUntil(() => a.elector.isLeader, { within: 30_000 });
    expect(candidate('a')?.spec).toMatchObject({
      leaseName: 'manager',
      binaryVersion: '1.36.0',
      emulationVersion: '1.36.0',
      strategy: 'OldestEmulationVersion',
    });
    expect(spec()).toMatchObject({ holderIdentity: 'a', strategy: 'OldestEmulationVersion', leaseDurationSeconds: 15 });
    await clock.advance(120_000);
    expect(a.elector.isLeader).toBe(true);
    expect(spec()).toMatchObject({ holderIdentity: 'a', leaseTransitions: 0 });
  });

  it('pings all candidates and moves the lease to the one with an older emulation version', async () => {
    const young = program('young', 'v1.37.0');
    await clock.runUntil(() => young.elector.isLeader, { within: 30_000 });
    await clock.advance(60_000);
    const old = program('old', 'v1.36.2');
    await clock.runUntil(() => old.elector.isLeader, { within: 30_000 });
    await clock.advance(10_000);
    expect([young.elector.isLeader, old.elector.isLeader]).toEqual([false, true]);
    expect(candidate('young')?.spec.pingTime).toBeDefined();
    expect(spec()).toMatchObject({ holderIdentity: 'old', leaseTransitions: 1 });
    expect(spec()?.preferredHolder).toBeUndefined();
  });

  it('assigns the lease to another candidate when the leader is gone', async () => {
    const a = program('a', 'v1.36.0');
    await clock.runUntil(() => a.elector.isLeader, { within: 30_000 });
    await clock.advance(1000); // a is older
    const b = program('b', 'v1.36.0');
    await clock.advance(30_000);
    expect(b.elector.isLeader).toBe(false);
    a.die();
    await clock.runUntil(() => b.elector.isLeader, { within: 60_000 });
    expect(spec()?.holderIdentity).toBe('b');
  });

  it('deletes a candidate that has not renewed for half an hour', async () => {
    const candidateRenewed = (name: string, minutesAgo: number) => ({
      metadata: { namespace, name },
      spec: {
        leaseName: at.name,
        binaryVersion: '1.36.0',
        emulationVersion: '1.36.0',
        strategy: 'OldestEmulationVersion',
        renewTime: formatMicroTime(clock.now() - minutesAgo * 60_000),
      },
    });
    await api.client().create(leaseCandidatesV1beta1, candidateRenewed('gone', 31));
    await api.client().create(leaseCandidatesV1beta1, candidateRenewed('quiet', 29));
    await clock.settle();
    expect([candidate('gone'), candidate('quiet')?.metadata?.name]).toEqual([undefined, 'quiet']);
    await clock.advance(2 * 60_000);
    expect(candidate('quiet')).toBeUndefined();
    expect(spec()).toBeUndefined();
  });
});

describe('pickBestLeader and pickBestStrategy', () => {
  const candidate = (name: string, binaryVersion: string, emulationVersion: string, more: { born?: string; strategy?: string } = {}) => ({
    metadata: { name, creationTimestamp: more.born ?? '2026-01-01T00:00:00Z' },
    spec: { leaseName: 'l', binaryVersion, emulationVersion, strategy: more.strategy ?? 'OldestEmulationVersion' },
  });
  it.each([
    ['the oldest emulation version', [candidate('a', '1.37.0', '1.37.0'), candidate('b', '1.38.0', '1.36.0')], 'b'],
    ['then the oldest binary version', [candidate('a', '1.38.0', '1.36.0'), candidate('b', '1.37.0', '1.36.0')], 'b'],
    ['versions in numeric order', [candidate('a', '1.10.0', '1.10.0'), candidate('b', '1.9.0', '1.9.0')], 'b'],
    [
      'then the older candidate',
      [candidate('a', '1.36.0', '1.36.0', { born: '2026-01-02T00:00:00Z' }), candidate('b', '1.36.0', '1.36.0')],
      'b',
    ],
    ['no candidate if there is none', [], undefined],
  ])('prefers %s', (_what, candidates, expected) => {
    expect(pickBestLeader(candidates)?.metadata?.name).toBe(expected);
  });
  it('uses the strategy of the newest binary version if its candidates agree', () => {
    const own = candidate('a', '1.38.0', '1.36.0', { strategy: 'example.com/mine' });
    expect(pickBestStrategy([candidate('b', '1.37.0', '1.37.0'), own])).toBe('example.com/mine');
    expect(pickBestStrategy([candidate('b', '1.38.0', '1.37.0'), own])).toBeUndefined();
  });
});
