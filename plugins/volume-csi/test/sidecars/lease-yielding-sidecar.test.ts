import { leases } from '@oarlock/api/resources';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LeaseYieldingSidecar, leaseOf } from '../../src/sidecars/lease-yielding-sidecar.ts';

describe('LeaseYieldingSidecar', () => {
  let clock: FakeClock;
  let api: MemoryApi;
  let work: LeaseYieldingSidecar;
  const seen: string[] = [];
  const name = { namespace: 'csi', name: 'external-attacher-leader-a-example-com' };

  beforeEach(async () => {
    seen.length = 0;
    clock = new FakeClock();
    api = memoryApi({ clock });
    work = new LeaseYieldingSidecar({
      work: 'attach',
      driver: 'a.example.com',
      informers: api.informers,
      clock,
      log: silentLogger,
      make: () => ({ start: () => void seen.push('start'), stop: () => Promise.resolve(void seen.push('stop')) }),
    });
  });
  afterEach(() => api.stop());
  const lead = (holderIdentity: string) => api.client().patch(leases, name, 'merge', { spec: { holderIdentity } });
  const claim = () => api.client().create(leases, { metadata: name, spec: { holderIdentity: 'attacher-0', leaseDurationSeconds: 15 } });

  it('watches the leases of the Kubernetes sidecars', () => {
    expect(
      (['attach', 'provision', 'resize', 'snapshot', 'bind-snapshots', 'monitor'] as const).map((each) =>
        leaseOf(each, 'Hostpath.csi/k8s.io'),
      ),
    ).toEqual([
      'external-attacher-leader-Hostpath-csi-k8s-io',
      'Hostpath-csi-k8s-io',
      'external-resizer-Hostpath-csi-k8s-io',
      'external-snapshotter-leader-Hostpath-csi-k8s-io',
      'snapshot-controller-leader',
      'external-health-monitor-leader-Hostpath-csi-k8s-io',
    ]);
  });

  it('runs while no sidecar holds the lease', async () => {
    work.start();
    await api.settle();
    expect(seen).toEqual(['start']);
    await claim();
    await api.settle();
    expect(seen).toEqual(['start', 'stop']);
    await lead('');
    await api.settle();
    expect(seen).toEqual(['start', 'stop', 'start']);
    await work.stop();
    expect(seen).toEqual(['start', 'stop', 'start', 'stop']);
  });

  it('does not start while the lease is held, and starts when it expires', async () => {
    await claim();
    work.start();
    await api.settle();
    expect(seen).toEqual([]);
    await clock.advance(10_000);
    await lead('attacher-1');
    await api.settle();
    await clock.advance(10_000);
    expect(seen).toEqual([]);
    await clock.advance(5_001);
    await api.settle();
    expect(seen).toEqual(['start']);
    await work.stop();
  });

  it('restarts when the lease is deleted, unless another lease is held', async () => {
    await claim();
    await api.client().create(leases, {
      metadata: { ...name, namespace: 'other' },
      spec: { holderIdentity: 'attacher-9', leaseDurationSeconds: 15 },
    });
    work.start();
    await api.settle();
    await api.client().delete(leases, name);
    await api.settle();
    expect(seen).toEqual([]);
    await api.client().delete(leases, { ...name, namespace: 'other' });
    await api.settle();
    expect(seen).toEqual(['start']);
    await work.stop();
  });
});
