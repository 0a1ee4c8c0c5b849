import 'reflect-metadata';
import type { KubeObject } from '@oarlock/api/object';
import { resource } from '@oarlock/api/resource';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission } from '@oarlock/spi/admission';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const snapshots = resource<KubeObject & { readonly spec?: object }>(
  'snapshot.storage.k8s.io',
  'v1',
  'volumesnapshots',
  'VolumeSnapshot',
  true,
);
const contents = resource('snapshot.storage.k8s.io', 'v1', 'volumesnapshotcontents', 'VolumeSnapshotContent', false);
const as = { identity: { name: 'system:node:n1', groups: ['system:nodes', 'system:authenticated'] } };

const clock = new FakeClock();
const api = memoryApi({ clock });
for (const [name, node] of [
  ['ours', 'n1'],
  ['theirs', 'n2'],
] as const) {
  api.seed(snapshots, {
    metadata: { namespace: 'd', name, uid: `uid-of-${name}` },
    spec: { source: { persistentVolumeClaimName: name } },
  });
  api.seed(persistentVolumeClaims, { metadata: { namespace: 'd', name }, spec: { volumeName: name } });
  api.seed(persistentVolumes, {
    metadata: { name },
    spec: {
      csi: { driver: 'hostpath.csi.oarlock.dev', volumeHandle: `handle-of-${name}` },
      nodeAffinity: {
        required: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'topology/node', operator: 'In', values: [node] }] }] },
      },
    },
  });
}
const [admission] = new PluginHost({ clock }).provide(Client, api.client()).add({ plugin }).get(Admission);

/** A content of the snapshot `of`, as the sidecar of a driver creates it. */
const content = (of: string, by?: string, spec: object = {}) => ({
  metadata: { name: `snapcontent-uid-of-${of}`, labels: { ...(by !== undefined && { 'snapshot.storage.kubernetes.io/managed-by': by }) } },
  spec: {
    driver: 'hostpath.csi.oarlock.dev',
    source: { volumeHandle: `handle-of-${of}` },
    volumeSnapshotRef: { namespace: 'd', name: of, uid: `uid-of-${of}` },
    ...spec,
  },
});
const provisioned = (by?: string) => content('theirs', by, { source: { snapshotHandle: 'brought' } });
const created = (object: object) => admissionRequest('CREATE', contents, object, as);
const changed = (object: object, old: object, subresource?: string) =>
  admissionRequest('UPDATE', contents, object, { ...as, old, ...(subresource !== undefined && { subresource }) });
const deleted = (old: object) => admissionRequest('DELETE', contents, undefined, { ...as, old });

const notManaged = 'can only write VolumeSnapshotContents that it manages';
const notOwn = 'can only create VolumeSnapshotContents for VolumeSnapshots of volumes that no other node reaches';
const fixed = 'is not allowed to change the source and the VolumeSnapshot of VolumeSnapshotContents';
it.each([
  ['a pre-provisioned content without a label', changed(provisioned(), provisioned()), notManaged],
  ['the status of such a content', changed(provisioned(), provisioned(), 'status'), notManaged],
  ['the label of such a content', changed(provisioned('n1'), provisioned()), notManaged],
  ['the deletion of such a content', deleted(provisioned()), notManaged],
  ['a content of another node', changed(content('theirs', 'n2'), content('theirs', 'n2')), notManaged],
  ['the deletion of a content of another node', deleted(content('theirs', 'n2')), notManaged],
  ['the label of its content', changed(content('ours', 'n2'), content('ours', 'n1')), notManaged],
  ['a new content of another node', created(content('ours', 'n2')), notManaged],
  ['a new content for the volume of another node', created(content('theirs', 'n1')), notOwn],
  [
    'a new content for a snapshot that was replaced',
    created({ ...content('ours', 'n1', { volumeSnapshotRef: { namespace: 'd', name: 'ours', uid: 'x' } }) }),
    notOwn,
  ],
  [
    'a new content of another volume than that of the claim',
    created(content('ours', 'n1', { source: { volumeHandle: 'handle-of-theirs' } })),
    notOwn,
  ],
  ['a new content with a snapshot that exists', created(content('ours', 'n1', { source: { snapshotHandle: 'brought' } })), notOwn],
  ['a new content for no snapshot', created(content('nobody', 'n1')), notOwn],
  ['another source of its content', changed(content('ours', 'n1', { source: { volumeHandle: 'x' } }), content('ours', 'n1')), fixed],
  [
    'another VolumeSnapshot of its content',
    changed(content('ours', 'n1', { volumeSnapshotRef: { namespace: 'd', name: 'theirs' } }), content('ours', 'n1')),
    fixed,
  ],
] as const)('a node cannot write %s', async (_, request, message) => {
  expect(await admission?.validate?.(request)).toMatchObject({ allowed: false, message: expect.stringContaining(message) as string });
});

it.each([
  ['a new content for a snapshot of its volume', created(content('ours', 'n1'))],
  [
    'the uid of the snapshot of its content',
    changed(content('ours', 'n1'), content('ours', 'n1', { volumeSnapshotRef: { namespace: 'd', name: 'ours' } })),
  ],
  ['the status of its content', changed(content('ours', 'n1'), content('ours', 'n1'), 'status')],
  ['the status of a pre-provisioned content that it manages', changed(provisioned('n1'), provisioned('n1'), 'status')],
  ['the deletion of its content', deleted(content('ours', 'n1'))],
] as const)('a node writes %s', async (_, request) => {
  expect(await admission?.validate?.(request)).toMatchObject({ allowed: true });
});
