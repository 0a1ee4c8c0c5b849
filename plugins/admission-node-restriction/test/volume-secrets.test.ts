import { resource } from '@oarlock/api/resource';
import { persistentVolumeClaims, persistentVolumes, storageClasses } from '@oarlock/api/resources';
import type { PersistentVolume } from '@oarlock/api/types/core-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission, isAdmissionDecision } from '@oarlock/spi/admission';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterAll, describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const identity = { name: 'system:node:n1', groups: ['system:nodes', 'system:authenticated'] };
const driver = 'hostpath.csi.oarlock.dev';
const api = memoryApi({ clock: new FakeClock() });
afterAll(() => api.stop());

const claim = (name: string, storageClassName: string, selected?: string) => ({
  metadata: {
    namespace: 'd',
    name,
    uid: `uid-${name}`,
    annotations: { ...(selected && { 'volume.kubernetes.io/selected-node': selected }) },
  },
  spec: { storageClassName },
});
const secret = { name: 'own-d', namespace: 'storage' };

interface Changes {
  readonly claimRef?: object;
  readonly csi?: object;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly storageClassName?: string;
  readonly name?: string;
}
/** Returns the PersistentVolume that the provisioner of node n1 creates for the claim `here`, with changes. */
const volume = ({ csi, annotations, name = 'pvc-uid-here', storageClassName = 'local', ...changes }: Changes = {}): PersistentVolume => ({
  metadata: { name, annotations: { 'pv.kubernetes.io/provisioned-by': driver, ...annotations } },
  spec: {
    claimRef: { namespace: 'd', name: 'here', uid: 'uid-here' },
    ...changes,
    storageClassName,
    csi: { driver, volumeHandle: 'v', nodePublishSecretRef: secret, ...csi },
    nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'node', operator: 'In', values: ['n1'] }] }] } },
  },
});

async function verdictOn(operation: 'CREATE' | 'UPDATE', object: PersistentVolume, old?: PersistentVolume): Promise<string> {
  api.seed(
    storageClasses,
    {
      metadata: { name: 'local' },
      provisioner: driver,
      volumeBindingMode: 'WaitForFirstConsumer',
      parameters: {
        'csi.storage.k8s.io/node-publish-secret-name': 'own-${pvc.namespace}',
        'csi.storage.k8s.io/node-publish-secret-namespace': 'storage',
      },
    },
    { metadata: { name: 'other' }, provisioner: 'other.example.com', volumeBindingMode: 'Immediate' },
    { metadata: { name: 'now' }, provisioner: driver, volumeBindingMode: 'Immediate' },
  );
  api.seed(
    persistentVolumeClaims,
    claim('here', 'local', 'n1'),
    claim('there', 'local', 'n2'),
    claim('waiting', 'local'),
    claim('foreign', 'other', 'n1'),
    claim('now', 'now'),
    { ...claim('bound', 'local', 'n1'), spec: { storageClassName: 'local', volumeName: 'elsewhere' } },
  );
  const [admission] = new PluginHost({ clock: new FakeClock() }).provide(Client, api.client()).add({ plugin }).get(Admission);
  const answer = await admission?.validate?.(admissionRequest(operation, persistentVolumes, object, { identity, ...(old && { old }) }));
  if (answer === undefined || !isAdmissionDecision(answer)) throw new Error('no verdict');
  return answer.allowed ? 'allowed' : answer.message;
}
const of = (name: string) => ({ claimRef: { namespace: 'd', name, uid: `uid-${name}` }, name: `pvc-uid-${name}` });
const victim = { name: 'admin-token', namespace: 'kube-system' };

describe('PersistentVolumes that a node creates', () => {
  const rejected: readonly (readonly [title: string, volume: PersistentVolume])[] = [
    ['the publish secret of another class', volume({ csi: { nodePublishSecretRef: victim } })],
    ['a stage secret that the class does not have', volume({ csi: { nodeStageSecretRef: victim } })],
    ['an expand secret that the class does not have', volume({ csi: { nodeExpandSecretRef: victim } })],
    ['a controller publish secret that the class does not have', volume({ csi: { controllerPublishSecretRef: victim } })],
    ['a controller expand secret that the class does not have', volume({ csi: { controllerExpandSecretRef: victim } })],
    [
      'a deletion secret that the class does not have',
      volume({
        annotations: {
          'volume.kubernetes.io/provisioner-deletion-secret-name': 'admin-token',
          'volume.kubernetes.io/provisioner-deletion-secret-namespace': 'kube-system',
        },
      }),
    ],
    ['no claim', volume({ claimRef: {} })],
    ['a claim that does not exist', volume(of('nowhere'))],
    ['a claim with another uid', volume({ claimRef: { namespace: 'd', name: 'here', uid: 'x' }, name: 'pvc-x' })],
    ['the name of another volume', volume({ name: 'pvc-uid-there' })],
    ['a claim that another node provisions', volume(of('there'))],
    ['a claim that the scheduler has not assigned', volume(of('waiting'))],
    ['a bound claim', volume(of('bound'))],
    [
      "a claim of another driver's class",
      volume({ ...of('foreign'), storageClassName: 'other', csi: { nodePublishSecretRef: undefined } }),
    ],
    ["another class than the claim's", volume({ storageClassName: 'now' })],
  ];
  it.each(rejected)('are rejected with %s', async (_, object) => {
    expect(await verdictOn('CREATE', object)).toContain('node "n1" can only create PersistentVolumes');
  });

  it('are allowed with the secrets of the class of a claim that is assigned to the node', async () => {
    expect(await verdictOn('CREATE', volume())).toBe('allowed');
  });
  it('are allowed for a claim of a class with immediate binding', async () => {
    expect(await verdictOn('CREATE', volume({ ...of('now'), storageClassName: 'now', csi: { nodePublishSecretRef: undefined } }))).toBe(
      'allowed',
    );
  });
});

it('VolumeSnapshotContents of a node have no deletion secret', async () => {
  const contents = resource('snapshot.storage.k8s.io', 'v1', 'volumesnapshotcontents', 'VolumeSnapshotContent', false);
  const key = 'snapshot.storage.kubernetes.io/deletion-secret-name';
  const labels = { 'snapshot.storage.kubernetes.io/managed-by': 'n1' };
  const [admission] = new PluginHost({ clock: new FakeClock() }).provide(Client, api.client()).add({ plugin }).get(Admission);
  const object = { metadata: { name: 'c', labels, annotations: { [key]: 'admin-token' } } };
  expect(await admission?.validate?.(admissionRequest('CREATE', contents, object, { identity }))).toMatchObject({ allowed: false });
});

describe('PersistentVolumes that a node updates', () => {
  const later = (change: Partial<NonNullable<PersistentVolume['spec']>>): PersistentVolume => ({
    ...volume(),
    spec: { ...volume().spec, ...change },
  });
  it.each([
    ['secrets', volume({ csi: { nodeExpandSecretRef: victim } })],
    ['claim', volume(of('there'))],
    ['deletion secret', volume({ annotations: { 'volume.kubernetes.io/provisioner-deletion-secret-name': 'a' } })],
    ['reclaim policy', later({ persistentVolumeReclaimPolicy: 'Delete' })],
  ])('keep their %s', async (_, object) => {
    expect(await verdictOn('UPDATE', object, volume())).toContain('node "n1" can only update');
  });
  it('may change their size, attributes class and finalizers', async () => {
    const resized = later({ capacity: { storage: '2Gi' }, volumeAttributesClassName: 'gold' });
    const object = { ...resized, metadata: { ...resized.metadata, finalizers: ['external-attacher/x'] } };
    expect(await verdictOn('UPDATE', object, volume())).toBe('allowed');
  });
});
