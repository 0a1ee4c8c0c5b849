import {
  csiDrivers,
  csiNodes,
  csiStorageCapacities,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  storageClasses,
} from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim, PodSpec } from '@oarlock/api/types/core-v1';
import type { StorageClass } from '@oarlock/api/types/storage-v1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../support/test-scheduler.ts';

let w: ReturnType<typeof testScheduler>;
beforeEach(() => {
  w = testScheduler();
});
afterEach(() => w.stop());

const zone = 'topology.kubernetes.io/zone';
const claim = (name: string, spec: PersistentVolumeClaim['spec'] = {}, bound = false): PersistentVolumeClaim => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { namespace: 'd', name, ...(bound && { annotations: { 'pv.kubernetes.io/bind-completed': 'yes' } }) },
  spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'slow', resources: { requests: { storage: '1Gi' } }, ...spec },
  status: { phase: bound ? 'Bound' : 'Pending' },
});
const volume = (name: string, spec: PersistentVolume['spec'] = {}, labels: Record<string, string> = {}): PersistentVolume => ({
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: { name, labels },
  spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'slow', capacity: { storage: '1Gi' }, hostPath: { path: '/x' }, ...spec },
  status: { phase: 'Available' },
});
const at = (name: string): PersistentVolume['spec'] => ({
  nodeAffinity: {
    required: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: [name] }] }] },
  },
});
const storageClass = (volumeBindingMode: string, more: Partial<StorageClass> = {}): StorageClass => ({
  apiVersion: 'storage.k8s.io/v1',
  kind: 'StorageClass',
  metadata: { name: 'slow' },
  provisioner: 'kubernetes.io/no-provisioner',
  volumeBindingMode,
  ...more,
});
const using = (...names: string[]): Partial<PodSpec> => ({
  volumes: names.map((name) => ({ name, persistentVolumeClaim: { claimName: name } })),
});
const claimOf = (name: string) => w.api.object(persistentVolumeClaims, { namespace: 'd', name });
const volumeOf = (name: string) => w.api.object(persistentVolumes, { name });
/** Acts as the volume controller. */
async function completeBinding(claimName: string, volumeName: string): Promise<void> {
  const found = claimOf(claimName);
  if (found === undefined) throw new Error('no claim');
  await w.api.client().update(persistentVolumeClaims, {
    ...found,
    metadata: { ...found.metadata, annotations: { ...found.metadata?.annotations, 'pv.kubernetes.io/bind-completed': 'yes' } },
    spec: { ...found.spec, volumeName },
  });
  await w.clock.settle();
}

describe('bound and unbound claims', () => {
  it('report a missing claim, and retry when it is created', async () => {
    w.seedNodes(node('n'));
    await w.start();
    await w.submit(pod('a', using('data')));
    expect(w.whyNot('a')).toBe(
      '0/1 nodes are available: persistentvolumeclaim "data" not found. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.',
    );
    w.api.seed(persistentVolumes, volume('v'));
    await w.api.client().create(persistentVolumeClaims, claim('data', { volumeName: 'v' }, true));
    await w.clock.advance(1100);
    expect(w.placeOf('a')).toBe('n');
  });

  it('wait for claims with immediate binding', async () => {
    w.seedNodes(node('n'));
    w.api.seed(storageClasses, storageClass('Immediate'));
    w.api.seed(persistentVolumeClaims, claim('data'));
    await w.start();
    await w.submit(pod('a', using('data')));
    expect(w.whyNot('a')).toContain(
      '0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. no new claims to deallocate, preemption:',
    );
    w.api.seed(persistentVolumes, volume('v'));
    await w.clock.settle();
    await completeBinding('data', 'v');
    await w.clock.advance(1100);
    expect(w.placeOf('a')).toBe('n');
  });

  it.each([
    [
      'is lost',
      { ...claim('data', { volumeName: 'v' }), status: { phase: 'Lost' } },
      'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
    ],
    [
      'is going',
      { ...claim('data'), metadata: { namespace: 'd', name: 'data', deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['x/y'] } },
      'persistentvolumeclaim "data" is being deleted',
    ],
  ])('reject a claim that %s', async (_what, claim, reason) => {
    w.seedNodes(node('n'));
    w.api.seed(persistentVolumeClaims, claim);
    await w.start();
    await w.submit(pod('a', using('data')));
    expect(w.whyNot('a')).toContain(`0/1 nodes are available: ${reason}.`);
  });

  it('select the node of the bound volume', async () => {
    w.seedNodes(node('n'), node('m'));
    w.api.seed(persistentVolumes, volume('v', at('m')));
    w.api.seed(persistentVolumeClaims, claim('data', { volumeName: 'v' }, true));
    await w.start();
    await w.submit(pod('a', { ...using('data'), nodeSelector: { 'kubernetes.io/hostname': 'n' } }), pod('b', using('data')));
    expect(w.whyNot('a')).toContain("1 node(s) didn't match PersistentVolume's node affinity");
    expect(w.placeOf('b')).toBe('m');
  });

  it("wait for the claim of an ephemeral volume, and reject another owner's", async () => {
    w.seedNodes(node('n'));
    await w.start();
    const spec: Partial<PodSpec> = { volumes: [{ name: 'scratch', ephemeral: { volumeClaimTemplate: { spec: {} } } }] };
    await w.submit(pod('a', spec));
    expect(w.whyNot('a')).toContain('waiting for ephemeral volume controller to create the persistentvolumeclaim "a-scratch"');
    await w.api.client().create(persistentVolumeClaims, claim('a-scratch'));
    await w.clock.advance(1100);
    expect(w.whyNot('a')).toContain('PVC d/a-scratch was not created for pod d/a (pod is not owner)');
  });
});

describe('claims with WaitForFirstConsumer', () => {
  it('take the smallest matching volume, for one pod only, and the pod is bound after the claim', async () => {
    w.seedNodes(node('n'), node('m'));
    w.api.seed(storageClasses, storageClass('WaitForFirstConsumer'));
    w.api.seed(persistentVolumes, volume('big', { ...at('n'), capacity: { storage: '8Gi' } }), volume('fit', at('n')));
    w.api.seed(persistentVolumeClaims, claim('one'), claim('two'));
    await w.start();
    await w.submit(pod('a', using('one')), pod('b', using('two')));
    expect(volumeOf('fit')?.spec?.claimRef).toMatchObject({ namespace: 'd', name: 'one' });
    expect(volumeOf('fit')?.metadata?.annotations).toEqual({ 'pv.kubernetes.io/bound-by-controller': 'yes' });
    expect(volumeOf('big')?.spec?.claimRef).toMatchObject({ namespace: 'd', name: 'two' });
    expect(w.placeOf('a')).toBeUndefined();
    await completeBinding('one', 'fit');
    await completeBinding('two', 'big');
    expect([w.placeOf('a'), w.placeOf('b')]).toEqual(['n', 'n']);
  });

  it('report that no volume matches', async () => {
    w.seedNodes(node('n'));
    w.api.seed(storageClasses, storageClass('WaitForFirstConsumer'));
    w.api.seed(persistentVolumeClaims, claim('data'));
    await w.start();
    await w.submit(pod('a', using('data')));
    expect(w.whyNot('a')).toContain("1 node(s) didn't find available persistent volumes to bind");
    w.api.seed(persistentVolumes, volume('v'));
    await w.clock.advance(1100);
    expect(volumeOf('v')?.spec?.claimRef?.name).toBe('data');
  });

  it('are provisioned if the class allows the topology and has capacity', async () => {
    w.seedNodes(node('n', { [zone]: 'a' }), node('m', { [zone]: 'b' }), node('o', { [zone]: 'b', disk: 'free' }));
    w.api.seed(
      storageClasses,
      storageClass('WaitForFirstConsumer', {
        provisioner: 'csi.example.com',
        allowedTopologies: [{ matchLabelExpressions: [{ key: zone, values: ['b'] }] }],
      }),
    );
    w.api.seed(csiDrivers, { metadata: { name: 'csi.example.com' }, spec: { storageCapacity: true } });
    w.api.seed(
      csiStorageCapacities,
      {
        metadata: { namespace: 'd', name: 'c1' },
        storageClassName: 'slow',
        capacity: '100Mi',
        nodeTopology: { matchLabels: { [zone]: 'b' } },
      },
      {
        metadata: { namespace: 'd', name: 'c2' },
        storageClassName: 'slow',
        capacity: '9Gi',
        nodeTopology: { matchLabels: { disk: 'free' } },
      },
    );
    w.api.seed(persistentVolumeClaims, claim('data'));
    await w.start();
    await w.submit(pod('a', { ...using('data'), nodeSelector: { 'kubernetes.io/hostname': 'm' } }));
    expect(w.whyNot('a')).toContain('1 node(s) did not have enough free storage');
    await w.submit(pod('b', using('data')));
    expect(claimOf('data')?.metadata?.annotations?.['volume.kubernetes.io/selected-node']).toBe('o');
    expect(w.placeOf('b')).toBeUndefined();
    w.api.seed(persistentVolumes, volume('made'));
    await w.clock.settle();
    await completeBinding('data', 'made');
    expect(w.placeOf('b')).toBe('o');
  });

  it('are retried when the provisioner resets the selected node', async () => {
    w.seedNodes(node('n'));
    w.api.seed(storageClasses, storageClass('WaitForFirstConsumer', { provisioner: 'csi.example.com' }));
    w.api.seed(persistentVolumeClaims, claim('data'));
    await w.start();
    await w.submit(pod('a', using('data')));
    await w.api.client().patch(persistentVolumeClaims, { namespace: 'd', name: 'data' }, 'merge', {
      metadata: { annotations: { 'volume.kubernetes.io/selected-node': null } },
    });
    await w.clock.settle();
    expect(w.podOf('a')?.status?.conditions?.[0]).toMatchObject({
      reason: 'SchedulerError',
      message: 'running PreBind plugin "VolumeBinding": binding volumes: selectedNode annotation reset for PVC "data"',
    });
    await w.clock.advance(1100);
    expect(claimOf('data')?.metadata?.annotations?.['volume.kubernetes.io/selected-node']).toBe('n');
  });

  it('fail after bindTimeoutSeconds', async () => {
    w = testScheduler({
      profiles: [{ pluginConfig: [{ name: 'VolumeBinding', args: { kind: 'VolumeBindingArgs', bindTimeoutSeconds: 5 } }] }],
    });
    w.seedNodes(node('n'));
    w.api.seed(storageClasses, storageClass('WaitForFirstConsumer'));
    w.api.seed(persistentVolumes, volume('v'));
    w.api.seed(persistentVolumeClaims, claim('data'));
    await w.start();
    await w.submit(pod('a', using('data')));
    await w.clock.advance(5100);
    expect(w.podOf('a')?.status?.conditions?.[0]).toMatchObject({
      reason: 'SchedulerError',
      message: 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded',
    });
  });
});

describe('volume restrictions', () => {
  it('with ReadWriteOncePod are used by one pod, and by the next after its deletion', async () => {
    w.seedNodes(node('n'), node('m'));
    w.api.seed(persistentVolumes, volume('v'));
    w.api.seed(persistentVolumeClaims, claim('data', { volumeName: 'v', accessModes: ['ReadWriteOncePod'] }, true));
    await w.start();
    await w.submit(pod('a', using('data')), pod('b', using('data')));
    expect(w.whyNot('b')).toContain('2 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode');
    await w.api.client().delete(pods, { namespace: 'd', name: 'a' }, { gracePeriodSeconds: 0 });
    await w.clock.advance(1100);
    expect(w.placeOf('b')).toBeDefined();
  });

  it('with ReadWriteOncePod are preempted by a pod of higher priority', async () => {
    w.seedNodes(node('n'), node('m'));
    w.api.seed(persistentVolumes, volume('v'));
    w.api.seed(persistentVolumeClaims, claim('data', { volumeName: 'v', accessModes: ['ReadWriteOncePod'] }, true));
    await w.start();
    await w.submit(pod('a', using('data')));
    const before = w.placeOf('a');
    await w.submit(pod('b', { ...using('data'), priority: 10 }));
    expect(w.podOf('a')?.metadata?.deletionTimestamp).toBeDefined();
    w.api.remove(pods, { namespace: 'd', name: 'a' });
    await w.clock.advance(1100);
    expect(w.placeOf('b')).toBe(before);
  });

  it.each([
    ['a writable disk', { gcePersistentDisk: { pdName: 'd' } }, { gcePersistentDisk: { pdName: 'd', readOnly: true } }, false],
    [
      'a read-only disk',
      { gcePersistentDisk: { pdName: 'd', readOnly: true } },
      { gcePersistentDisk: { pdName: 'd', readOnly: true } },
      true,
    ],
    ['an EBS volume', { awsElasticBlockStore: { volumeID: 'v' } }, { awsElasticBlockStore: { volumeID: 'v' } }, false],
    ['an image of RBD', { rbd: { image: 'i', monitors: ['a', 'b'] } }, { rbd: { image: 'i', monitors: ['b'] } }, false],
    ['another image', { rbd: { image: 'i', monitors: ['a'] } }, { rbd: { image: 'j', monitors: ['a'] } }, true],
  ])('VolumeRestrictions limits the sharing of %s on a node', async (_what, first, second, together) => {
    w.seedNodes(node('n'));
    await w.start();
    await w.submit(pod('a', { volumes: [{ name: 'v', ...first }] }), pod('b', { volumes: [{ name: 'v', ...second }] }));
    if (together) expect(w.placeOf('b')).toBe('n');
    else expect(w.whyNot('b')).toContain('1 node(s) had no available disk');
  });
});

it('VolumeZone selects nodes in the zone of the volume', async () => {
  w.seedNodes(node('n', { [zone]: 'a' }), node('m', { [zone]: 'b' }));
  w.api.seed(persistentVolumes, volume('v', {}, { 'failure-domain.beta.kubernetes.io/zone': 'b__c' }));
  w.api.seed(persistentVolumeClaims, claim('data', { volumeName: 'v' }, true));
  await w.start();
  await w.submit(pod('a', { ...using('data'), nodeSelector: { [zone]: 'a' } }), pod('b', using('data')));
  expect(w.whyNot('a')).toContain('1 node(s) had no available volume zone');
  expect(w.placeOf('b')).toBe('m');
});

it.each([
  ['persistentvolume "v" not found', { volumeName: 'v' }],
  ['storageclass.storage.k8s.io "fast" not found', { storageClassName: 'fast' }],
])('VolumeZone reports %s', async (reason, spec) => {
  w = testScheduler({
    profiles: [{ plugins: { preFilter: { disabled: [{ name: 'VolumeBinding' }] }, filter: { disabled: [{ name: 'VolumeBinding' }] } } }],
  });
  w.seedNodes(node('n'));
  w.api.seed(persistentVolumeClaims, claim('data', spec, true));
  await w.start();
  await w.submit(pod('a', using('data')));
  expect(w.whyNot('a')).toContain(`0/1 nodes are available: ${reason}.`);
});

it('VolumeZone ignores ephemeral volumes, and beta labels of nodes for stable labels of volumes', async () => {
  w.seedNodes(node('n', { 'failure-domain.beta.kubernetes.io/zone': 'a' }));
  w.api.seed(persistentVolumes, volume('v', {}, { [zone]: 'a' }), volume('w', {}, { 'failure-domain.beta.kubernetes.io/zone': 'b' }));
  w.api.seed(persistentVolumeClaims, claim('data', { volumeName: 'v' }, true));
  await w.start();
  await w.submit(pod('a', using('data')));
  expect(w.whyNot('a')).toContain('1 node(s) had no available volume zone');
  const ephemeral: Partial<PodSpec> = { volumes: [{ name: 'scratch', ephemeral: { volumeClaimTemplate: { spec: {} } } }] };
  const created = await w.api.client().create(pods, pod('b', ephemeral));
  const owned = claim('b-scratch', { volumeName: 'w' }, true);
  const owner = { apiVersion: 'v1', kind: 'Pod', name: 'b', uid: created.metadata?.uid ?? '', controller: true };
  await w.api.client().create(persistentVolumeClaims, { ...owned, metadata: { ...owned.metadata, ownerReferences: [owner] } });
  await w.clock.advance(1100);
  expect(w.placeOf('b')).toBe('n');
});

it('NodeVolumeLimits respects the attach limit of the driver', async () => {
  w.seedNodes(node('n'));
  w.api.seed(csiNodes, {
    metadata: { name: 'n' },
    spec: { drivers: [{ name: 'csi.example.com', nodeID: 'n', allocatable: { count: 1 } }] },
  });
  const csi = (volumeHandle: string) => ({ csi: { driver: 'csi.example.com', volumeHandle } });
  w.api.seed(persistentVolumes, volume('v1', csi('1')), volume('v2', csi('2')));
  w.api.seed(persistentVolumeClaims, claim('one', { volumeName: 'v1' }, true), claim('two', { volumeName: 'v2' }, true));
  await w.start();
  await w.submit(pod('a', using('one')), pod('same', using('one')), pod('b', using('two')));
  expect([w.placeOf('a'), w.placeOf('same')]).toEqual(['n', 'n']);
  expect(w.whyNot('b')).toContain('1 node(s) exceed max volume count');
  for (const name of ['a', 'same']) await w.api.client().delete(pods, { namespace: 'd', name }, { gracePeriodSeconds: 0 });
  await w.clock.advance(1100);
  expect(w.placeOf('b')).toBe('n');
});
