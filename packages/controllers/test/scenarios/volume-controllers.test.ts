import { persistentVolumeClaims, persistentVolumes, pods, storageClasses } from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';
import ephemeralVolume from '@oarlock/controllers/volume/ephemeral-volume/ephemeral-volume-controller';
import persistentVolume from '@oarlock/controllers/volume/persistent-volume/persistent-volume-controller';
import volumeExpansion from '@oarlock/controllers/volume/expansion/volume-expansion-controller';
import { claimProtection, volumeProtection } from '@oarlock/controllers/volume/protection/volume-protection-controllers';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { at, runControllers, named } from '../support/running-controllers.ts';

const volume = (name: string, size: string, more: Partial<PersistentVolume['spec'] & object> = {}): PersistentVolume => ({
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: { name },
  spec: {
    capacity: { storage: size },
    accessModes: ['ReadWriteOnce'],
    hostPath: { path: '/x' },
    persistentVolumeReclaimPolicy: 'Retain',
    ...more,
  },
});
const claim = (name: string, size: string, more: Partial<PersistentVolumeClaim['spec'] & object> = {}): PersistentVolumeClaim => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { namespace: 'd', name },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: size } }, storageClassName: '', ...more },
});
const plain = { defaults: false };
const phase = (api: MemoryApi, name: string) => api.object(persistentVolumes, { name })?.status?.phase;
const got = (api: MemoryApi, name: string) => api.object(persistentVolumeClaims, at(name));

describe('PersistentVolumeController', () => {
  it('binds a claim to the smallest sufficient volume and updates the status of both', async () => {
    const { api, clock } = await runControllers([persistentVolume], {
      ...plain,
      seed: (memory) => void memory.seed(persistentVolumes, volume('small', '1Gi'), volume('large', '10Gi'), volume('medium', '5Gi')),
    });
    expect(phase(api, 'medium')).toBe('Available');
    await api.client().create(persistentVolumeClaims, claim('data', '3Gi'));
    await clock.settle();
    expect(got(api, 'data')).toMatchObject({
      metadata: { annotations: { 'pv.kubernetes.io/bind-completed': 'yes', 'pv.kubernetes.io/bound-by-controller': 'yes' } },
      spec: { volumeName: 'medium' },
      status: { phase: 'Bound', accessModes: ['ReadWriteOnce'], capacity: { storage: '5Gi' } },
    });
    expect(api.object(persistentVolumes, { name: 'medium' })).toMatchObject({
      spec: { claimRef: { kind: 'PersistentVolumeClaim', namespace: 'd', name: 'data', uid: got(api, 'data')?.metadata?.uid } },
      status: { phase: 'Bound' },
    });
  });

  it('prefers a volume with fewer access modes to a smaller one', async () => {
    const { api, clock } = await runControllers([persistentVolume], {
      ...plain,
      seed: (memory) =>
        void memory.seed(
          persistentVolumes,
          volume('shared', '3Gi', { accessModes: ['ReadWriteOnce', 'ReadOnlyMany'] }),
          volume('exact', '9Gi'),
        ),
    });
    await api.client().create(persistentVolumeClaims, claim('data', '3Gi'));
    await clock.settle();
    expect(got(api, 'data')?.spec?.volumeName).toBe('exact');
  });

  it('binds pending claims when a volume appears', async () => {
    const life = await runControllers([persistentVolume], plain);
    const { api, clock } = life;
    await api.client().create(persistentVolumeClaims, claim('data', '3Gi'));
    await clock.settle();
    expect(got(api, 'data')?.status?.phase).toBe('Pending');
    expect(life.messages('FailedBinding')[0]).toBe('no persistent volumes available for this claim and no storage class is set');
    await api.client().create(persistentVolumes, volume('v', '3Gi'));
    await clock.settle();
    expect(got(api, 'data')?.status?.phase).toBe('Bound');
  });

  it('keeps a pre-bound volume for its claim and rejects a mismatched one', async () => {
    const life = await runControllers([persistentVolume], {
      ...plain,
      seed: (memory) =>
        void memory.seed(persistentVolumes, volume('kept', '9Gi', { claimRef: { namespace: 'd', name: 'mine' } }), volume('tiny', '1Gi')),
    });
    const { api, clock } = life;
    await api.client().create(persistentVolumeClaims, claim('other', '2Gi'));
    await api.client().create(persistentVolumeClaims, claim('named', '2Gi', { volumeName: 'tiny' }));
    await api.client().create(persistentVolumeClaims, claim('mine', '2Gi'));
    await clock.settle();
    expect(got(api, 'mine')?.spec?.volumeName).toBe('kept');
    expect(got(api, 'other')?.status?.phase).toBe('Pending');
    expect(got(api, 'named')?.status?.phase).toBe('Pending');
    expect(life.messages('VolumeMismatch')[0]).toBe('Cannot bind to requested volume "tiny": requested PV is too small');
  });

  it('releases a volume of a deleted claim and reports a claim with a deleted volume', async () => {
    const life = await runControllers([persistentVolume], {
      ...plain,
      seed: (memory) =>
        void memory.seed(persistentVolumes, volume('retain', '1Gi'), volume('delete', '2Gi', { persistentVolumeReclaimPolicy: 'Delete' })),
    });
    const { api, clock } = life;
    await api.client().create(persistentVolumeClaims, claim('a', '1Gi'));
    await clock.settle();
    await api.client().create(persistentVolumeClaims, claim('b', '1Gi'));
    await clock.settle();
    for (const name of ['a', 'b']) api.remove(persistentVolumeClaims, at(name));
    await clock.settle();
    expect(phase(api, 'retain')).toBe('Released');
    expect(phase(api, 'delete')).toBe('Failed');
    expect(life.reasons()).toContain('VolumeFailedDelete');
    // a claim with the same name and another uid
    await api.client().create(persistentVolumeClaims, claim('a', '1Gi'));
    await clock.settle();
    expect(got(api, 'a')?.status?.phase).toBe('Pending');
    await api.client().create(persistentVolumes, volume('v', '1Gi'));
    await clock.settle();
    expect(got(api, 'a')?.status?.phase).toBe('Bound');
    api.remove(persistentVolumes, { name: 'v' });
    await clock.settle();
    expect(got(api, 'a')?.status?.phase).toBe('Lost');
    expect(life.messages('ClaimLost')).toEqual(['Bound claim has lost its PersistentVolume. Data on the volume is lost!']);
  });

  it('reports periodically for which pods a claim waits, and names the CSI driver that replaces an in-tree provisioner', async () => {
    const storageClass = (name: string, volumeBindingMode: string) => ({
      apiVersion: 'storage.k8s.io/v1',
      kind: 'StorageClass',
      metadata: { name },
      provisioner: 'kubernetes.io/aws-ebs',
      volumeBindingMode,
    });
    const life = await runControllers([persistentVolume], {
      ...plain,
      seed: (memory) => void memory.seed(storageClasses, storageClass('now', 'Immediate'), storageClass('late', 'WaitForFirstConsumer')),
    });
    const { api, clock } = life;
    await api.client().create(persistentVolumeClaims, claim('now', '1Gi', { storageClassName: 'now' }));
    await api.client().create(persistentVolumeClaims, claim('data', '1Gi', { storageClassName: 'late' }));
    await clock.settle();
    expect(got(api, 'now')?.metadata?.annotations).toEqual({
      'volume.beta.kubernetes.io/storage-provisioner': 'ebs.csi.aws.com',
      'volume.kubernetes.io/storage-provisioner': 'ebs.csi.aws.com',
    });
    expect(life.messages('ExternalProvisioning')[0]).toContain("external provisioner 'ebs.csi.aws.com'");
    const { nodeName: _none, ...spec } = user.spec ?? { containers: [] };
    await api.client().create(pods, { ...user, spec });
    await clock.settle();
    expect(life.messages('WaitForPodScheduled')).toEqual([]);
    await clock.advance(15_000);
    expect(life.messages('WaitForPodScheduled')).toEqual(['waiting for pod p to be scheduled']);
  });

  it('requests provisioning, delays binding for WaitForFirstConsumer, and uses the default class', async () => {
    const life = await runControllers([persistentVolume], {
      ...plain,
      seed: (memory) =>
        void memory.seed(
          storageClasses,
          {
            apiVersion: 'storage.k8s.io/v1',
            kind: 'StorageClass',
            metadata: { name: 'now' },
            provisioner: 'x.io/p',
            volumeBindingMode: 'Immediate',
          },
          {
            apiVersion: 'storage.k8s.io/v1',
            kind: 'StorageClass',
            metadata: { name: 'late' },
            provisioner: 'x.io/p',
            volumeBindingMode: 'WaitForFirstConsumer',
          },
        ),
    });
    const { api, clock } = life;
    await api.client().create(persistentVolumeClaims, claim('now', '1Gi', { storageClassName: 'now' }));
    await api.client().create(persistentVolumeClaims, claim('late', '1Gi', { storageClassName: 'late' }));
    await api.client().create(persistentVolumeClaims, claim('none', '1Gi', { storageClassName: 'nowhere' }));
    const { storageClassName: _none, ...spec } = claim('default', '1Gi').spec ?? {};
    await api.client().create(persistentVolumeClaims, { ...claim('default', '1Gi'), spec });
    await clock.settle();
    expect(got(api, 'now')?.metadata?.annotations).toMatchObject({ 'volume.kubernetes.io/storage-provisioner': 'x.io/p' });
    expect(got(api, 'late')?.metadata?.annotations).toBeUndefined();
    expect(life.messages('WaitForFirstConsumer')[0]).toBe('waiting for first consumer to be created before binding');
    expect(life.messages('ProvisioningFailed')[0]).toBe('storageclass.storage.k8s.io "nowhere" not found');
    await api
      .client()
      .patch(persistentVolumeClaims, at('late'), 'merge', { metadata: { annotations: { 'volume.kubernetes.io/selected-node': 'n1' } } });
    await api.client().patch(storageClasses, { name: 'now' }, 'merge', {
      metadata: { annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } },
    });
    await clock.settle();
    expect(got(api, 'late')?.metadata?.annotations).toMatchObject({ 'volume.kubernetes.io/storage-provisioner': 'x.io/p' });
    expect(got(api, 'default')?.spec?.storageClassName).toBe('now');
    const uid = got(api, 'now')?.metadata?.uid ?? '';
    await api
      .client()
      .create(persistentVolumes, volume('made', '1Gi', { storageClassName: 'now', claimRef: { namespace: 'd', name: 'now', uid } }));
    await clock.settle();
    expect(got(api, 'now')).toMatchObject({ spec: { volumeName: 'made' }, status: { phase: 'Bound' } });
  });
});

controllerPluginContract(persistentVolume, [
  {
    title: 'binds two claims and releases the volume of a deleted one',
    steps: [
      (api) => void api.seed(persistentVolumes, volume('v1', '1Gi')),
      async (api) => {
        await api.client().create(persistentVolumeClaims, claim('a', '1Gi', { volumeName: 'v1' }));
      },
      async (api) => {
        await api.client().create(persistentVolumes, volume('v2', '2Gi'));
        await api.client().create(persistentVolumeClaims, claim('b', '2Gi'));
      },
      (api) => api.remove(persistentVolumeClaims, at('b')),
    ],
    expectResult: (api) => {
      expect(got(api, 'a')?.status?.phase).toBe('Bound');
      expect(got(api, 'a')?.spec?.volumeName).toBe('v1');
      expect(phase(api, 'v1')).toBe('Bound');
      expect(['Released', 'Available']).toContain(phase(api, 'v2'));
    },
  },
]);

const user: Pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name: 'p' },
  spec: { nodeName: 'n', containers: [{ name: 'c', image: 'a' }], volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'data' } }] },
};
describe('volume protection controllers', () => {
  it('keep claims and volumes until they are no longer in use', async () => {
    const { api, clock } = await runControllers([claimProtection, volumeProtection], {
      ...plain,
      seed: (memory) => void memory.seed(pods, user),
    });
    await api.client().create(persistentVolumeClaims, claim('data', '1Gi'));
    api.seed(persistentVolumes, { ...volume('v', '1Gi'), status: { phase: 'Bound' } });
    await clock.settle();
    expect(got(api, 'data')?.metadata?.finalizers).toEqual(['kubernetes.io/pvc-protection']);
    await api.client().delete(persistentVolumeClaims, at('data'));
    await api.client().delete(persistentVolumes, { name: 'v' });
    await clock.settle();
    expect(got(api, 'data')).toBeDefined();
    expect(phase(api, 'v')).toBe('Bound');
    api.remove(pods, at('p'));
    await api.client().patch(persistentVolumes, { name: 'v' }, 'merge', { status: { phase: 'Released' } }, { subresource: 'status' });
    await clock.settle();
    expect(got(api, 'data')).toBeUndefined();
    expect(phase(api, 'v')).toBeUndefined();
  });
});
controllerPluginContract(claimProtection, [
  {
    title: 'protects a claim until its last pod is deleted',
    steps: [
      async (api) => {
        await api.client().create(persistentVolumeClaims, claim('data', '1Gi'));
      },
      (api) => void api.seed(pods, user),
      async (api) => {
        await api.client().delete(persistentVolumeClaims, at('data'));
      },
      (api) => api.remove(pods, at('p')),
    ],
    expectResult: (api) => expect(got(api, 'data')).toBeUndefined(),
  },
]);

const ephemeral: Pod = {
  ...user,
  spec: {
    containers: [{ name: 'c', image: 'a' }],
    volumes: [
      { name: 'scratch', ephemeral: { volumeClaimTemplate: { metadata: { labels: { x: 'y' } }, spec: claim('x', '1Gi').spec ?? {} } } },
    ],
  },
};
controllerPluginContract(ephemeralVolume, [
  {
    title: 'creates the claim of a pod, and again after its deletion',
    steps: [
      async (api) => {
        await api.client().create(pods, ephemeral);
      },
      (api) => api.remove(persistentVolumeClaims, at('p-scratch')),
    ],
    expectResult: (api) => {
      expect(named(api.objects(persistentVolumeClaims, 'd'))).toEqual(['p-scratch']);
      expect(got(api, 'p-scratch')?.metadata).toMatchObject({
        labels: { x: 'y' },
        ownerReferences: [{ kind: 'Pod', name: 'p', controller: true, blockOwnerDeletion: true }],
      });
    },
  },
]);

describe('volume expansion controller', () => {
  it('reports that it waits for an external resizer', async () => {
    const life = await runControllers([volumeExpansion], plain);
    const [seeded] = life.api.seed(persistentVolumeClaims, {
      ...claim('data', '2Gi', { volumeName: 'v' }),
      status: { phase: 'Bound', capacity: { storage: '1Gi' } },
    });
    life.api.seed(persistentVolumes, volume('v', '1Gi', { claimRef: { namespace: 'd', name: 'data', uid: seeded?.metadata?.uid ?? '' } }));
    await life.clock.settle();
    await life.api.client().patch(persistentVolumeClaims, at('data'), 'merge', { spec: { resources: { requests: { storage: '3Gi' } } } });
    await life.clock.settle();
    expect(life.messages('ExternalExpanding')).toContain('waiting for an external controller to expand this PVC');
  });
});
