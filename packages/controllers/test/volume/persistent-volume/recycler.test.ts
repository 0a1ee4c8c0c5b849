import { persistentVolumeClaims, persistentVolumes, pods } from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import persistentVolume from '@oarlock/controllers/volume/persistent-volume/persistent-volume-controller';
import { Recycler } from '@oarlock/controllers/volume/persistent-volume/recycler';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { at, runControllers } from '../../support/running-controllers.ts';

const volume = (more: Partial<NonNullable<PersistentVolume['spec']>> = { hostPath: { path: '/x' } }): PersistentVolume => ({
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: { name: 'v' },
  spec: { capacity: { storage: '4Gi' }, accessModes: ['ReadWriteOnce'], persistentVolumeReclaimPolicy: 'Recycle', ...more },
});
const claim: PersistentVolumeClaim = {
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { namespace: 'd', name: 'c' },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } }, storageClassName: '' },
};
const scrubber = { namespace: 'default', name: 'recycler-for-v' };
const phase = (api: MemoryApi) => api.object(persistentVolumes, { name: 'v' })?.status?.phase;
/** Sets the phase of the recycler pod, as the kubelet does. Returns true if there was a pod. */
async function ends(api: MemoryApi, how: 'Succeeded' | 'Failed', message = ''): Promise<boolean> {
  const pod = api.object(pods, scrubber);
  if (pod === undefined) return false;
  if (pod.metadata?.deletionTimestamp !== undefined) {
    api.remove(pods, scrubber);
    return true;
  }
  if (pod.status?.phase === how) return false;
  await api.client().update(pods, { ...pod, status: { phase: how, ...(message !== '' && { message }) } }, { subresource: 'status' });
  return true;
}

describe('Recycler', () => {
  const bound = async (spec?: Parameters<typeof volume>[0]) => {
    const life = await runControllers([persistentVolume], {
      defaults: false,
      seed: (api) => void api.seed(persistentVolumes, volume(spec)),
    });
    await life.api.client().create(persistentVolumeClaims, claim);
    await life.clock.settle();
    expect(phase(life.api)).toBe('Bound');
    return life;
  };

  it('empties a volume with a pod and makes it available', async () => {
    const { api, clock, messages } = await bound();
    await api.client().delete(persistentVolumeClaims, at('c'));
    await clock.settle();
    expect(phase(api)).toBe('Released');
    expect(api.object(pods, scrubber)?.spec).toMatchObject({
      restartPolicy: 'Never',
      activeDeadlineSeconds: 120,
      volumes: [{ hostPath: { path: '/x' } }],
      containers: [{ volumeMounts: [{ mountPath: '/scrub' }] }],
    });
    await ends(api, 'Succeeded');
    await clock.settle();
    expect(phase(api)).toBe('Available');
    expect(api.object(persistentVolumes, { name: 'v' })?.spec?.claimRef).toBeUndefined();
    expect(messages('VolumeRecycled')).toEqual(['Volume recycled']);
  });

  it('waits for pods that still use the volume', async () => {
    const { api, clock, messages } = await bound();
    api.seed(pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace: 'd', name: 'user' },
      spec: { containers: [{ name: 'c', image: 'a' }], volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'c' } }] },
    });
    api.remove(persistentVolumeClaims, at('c'));
    await clock.settle();
    expect(messages('VolumeFailedRecycle')).toContain('Volume is used by pods: d/user');
    expect(api.object(pods, scrubber)).toBeUndefined();
    api.remove(pods, at('user'));
    await clock.settle();
    expect(api.object(pods, scrubber)).toBeDefined();
  });

  it('marks a volume as failed if it cannot be emptied', async () => {
    const one = await bound();
    await one.api.client().delete(persistentVolumeClaims, at('c'));
    await one.clock.settle();
    await ends(one.api, 'Failed', 'disk on fire');
    await one.clock.settle();
    expect(phase(one.api)).toBe('Failed');
    expect(one.api.object(persistentVolumes, { name: 'v' })?.status?.message).toBe('Recycle failed: disk on fire');
    await ends(one.api, 'Failed');
    await one.clock.settle();
    expect(one.api.object(pods, scrubber)).toBeUndefined();

    const other = await bound({ csi: { driver: 'x', volumeHandle: 'y' } });
    await other.api.client().delete(persistentVolumeClaims, at('c'));
    await other.clock.settle();
    expect(phase(other.api)).toBe('Failed');
    expect(other.messages('VolumeFailedRecycle')).toEqual(['No recycler plugin found for the volume!']);
  });

  it('reports a failure once if it reconciles an outdated volume again', async () => {
    const { api } = await runControllers([], { defaults: false });
    const reasons: string[] = [];
    const [released] = api.seed(persistentVolumes, {
      ...volume({ csi: { driver: 'x', volumeHandle: 'y' } }),
      status: { phase: 'Released' },
    });
    if (released === undefined) throw new Error('no volume is stored');
    const recorder = { event: (_about: unknown, _type: string, reason: string) => void reasons.push(reason) };
    const recycler = new Recycler({ pods: api.informers.forResource(pods), recorder, image: 'i' });
    await recycler.step(released, api.client());
    await expect(recycler.step(released, api.client())).rejects.toMatchObject({ reason: 'Conflict' });
    expect(reasons).toEqual(['VolumeFailedRecycle']);
  });
});

controllerPluginContract(persistentVolume, [
  {
    title: 'empties a volume before it is available again',
    steps: [
      (api) => void api.seed(persistentVolumes, volume()),
      async (api) => void (await api.client().create(persistentVolumeClaims, claim)),
      async (api) => void (await api.client().delete(persistentVolumeClaims, at('c'))),
    ],
    simulateOthers: (api) => ends(api, 'Succeeded'),
    expectResult: (api) => {
      expect(phase(api)).toBe('Available');
      expect(api.object(pods, scrubber)).toBeUndefined();
    },
  },
]);
