import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject, ObjectMeta } from '@oarlock/api/object';
import { resource, type Resource } from '@oarlock/api/resource';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolume } from '@oarlock/api/types/core-v1';
import type { CSIStorageCapacity } from '@oarlock/api/types/storage-v1';
import { allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Client, ObjectName } from '@oarlock/spi/client';
import { isOnNode } from './volumes.ts';

// Nodes that provision their own volumes also take snapshots of them. These rules restrict them to snapshots of their own volumes.

interface Snapshot extends KubeObject {
  readonly spec?: {
    readonly source?: { readonly persistentVolumeClaimName?: string; readonly volumeSnapshotContentName?: string };
    readonly volumeSnapshotClassName?: string;
  };
  readonly status?: { readonly boundVolumeSnapshotContentName?: string };
}
interface Content extends KubeObject {
  readonly spec?: {
    readonly source?: { readonly volumeHandle?: string };
    readonly volumeSnapshotRef?: { readonly namespace?: string; readonly name?: string; readonly uid?: string };
  };
}
const snapshots = resource<Snapshot>('snapshot.storage.k8s.io', 'v1', 'volumesnapshots', 'VolumeSnapshot', true);
const contents = resource<Content>('snapshot.storage.k8s.io', 'v1', 'volumesnapshotcontents', 'VolumeSnapshotContent', false);

const quoted = JSON.stringify;
const managedBy = 'snapshot.storage.kubernetes.io/managed-by';
const secretKeys = ['name', 'namespace'].map((end) => `snapshot.storage.kubernetes.io/deletion-secret-${end}`);
/** The finalizers that the snapshot controllers set. */
const held: ReadonlySet<string> = new Set([
  'snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection',
  'snapshot.storage.kubernetes.io/volumesnapshot-bound-protection',
]);

/** Allows a node to set the finalizers, the class and the status of VolumeSnapshots of the node's own volumes. */
export async function admitVolumeSnapshot(client: Client, node: string, request: AdmissionRequest): Promise<AdmissionDecision> {
  const { operation, subresource, object, old } = request;
  if (operation !== 'UPDATE') return deny(`unexpected operation ${quoted(operation)}`);
  const [before, after]: readonly [Snapshot, Snapshot] = [old ?? {}, object ?? {}];
  const contentName = contentOf(before);
  const allowed = after.status?.boundVolumeSnapshotContentName;
  const same =
    subresource === 'status' ? allowed === undefined || allowed === contentName : jsonEqual(plain(after, before), plain(before, before));
  return same && (await isReachableFromNode(client, { node, snapshot: before, contentName }))
    ? allow
    : deny(`node ${quoted(node)} can only update VolumeSnapshots of volumes that no other node reaches`);
}

/** Returns the fields of a VolumeSnapshot that a node must not change. The class may be set if the VolumeSnapshot has none. */
function plain({ metadata, spec = {}, ...others }: Snapshot, before: Snapshot): unknown {
  const { finalizers = [], ...rest }: ObjectMeta = metadata ?? {};
  const { volumeSnapshotClassName, ...wanted } = spec;
  const requested = before.spec?.volumeSnapshotClassName === undefined ? {} : { volumeSnapshotClassName };
  const foreign = finalizers.filter((each) => !held.has(each));
  const own = { ...rest, finalizers: foreign, managedFields: undefined, resourceVersion: undefined, generation: undefined };
  return JSON.parse(JSON.stringify({ ...others, status: undefined, metadata: own, spec: { ...wanted, ...requested } }));
}

const contentOf = ({ metadata, spec, status }: Snapshot): string =>
  status?.boundVolumeSnapshotContentName ?? spec?.source?.volumeSnapshotContentName ?? `snapcontent-${metadata?.uid}`;

async function isReachableFromNode(
  client: Client,
  { node, snapshot, contentName }: { readonly node: string; readonly snapshot: Snapshot; readonly contentName: string },
): Promise<boolean> {
  const content = await find(client, contents, { name: contentName });
  if (content !== undefined) return content.metadata?.labels?.[managedBy] === node;
  const volume = await volumeOf(client, snapshot);
  // without a volume of the claim, no other node can report the error
  return volume === undefined || isOnNode(node, volume);
}

/**
 * Allows a node to write the VolumeSnapshotContents that it manages, as the sidecars of upstream's distributed snapshotting do. Only the label names the
 * node that manages a content: a pre-provisioned content without it belongs to no node. A node creates contents for snapshots of its own volumes; with the
 * content of another one it could decide what a claim is restored from.
 */
export async function admitVolumeSnapshotContent(client: Client, node: string, request: AdmissionRequest): Promise<AdmissionDecision> {
  const { operation } = request;
  const [before, after]: readonly [Content, Content] = [request.old ?? {}, request.object ?? {}];
  const secret = ({ metadata }: Content) => secretKeys.map((key) => metadata?.annotations?.[key] ?? '');
  // a central snapshotter with its own permissions would read the Secret for the driver
  if (operation !== 'DELETE' && !jsonEqual(secret(after), secret(before)))
    return deny(`node ${quoted(node)} is not allowed to set the deletion secret of VolumeSnapshotContents`);
  const managed = [...(operation === 'DELETE' ? [] : [after]), ...(operation === 'CREATE' ? [] : [before])];
  if (!managed.every(({ metadata }) => metadata?.labels?.[managedBy] === node))
    return deny(`node ${quoted(node)} can only write VolumeSnapshotContents that it manages`);
  if (operation === 'UPDATE') {
    const fixed = ({ spec }: Content) => [spec?.source, spec?.volumeSnapshotRef?.namespace, spec?.volumeSnapshotRef?.name];
    return jsonEqual(fixed(after), fixed(before))
      ? allow
      : deny(`node ${quoted(node)} is not allowed to change the source and the VolumeSnapshot of VolumeSnapshotContents`);
  }
  return operation === 'DELETE' || (await isOfOwnVolume(client, node, after))
    ? allow
    : deny(`node ${quoted(node)} can only create VolumeSnapshotContents for VolumeSnapshots of volumes that no other node reaches`);
}

async function isOfOwnVolume(client: Client, node: string, { spec }: Content): Promise<boolean> {
  const { namespace = '', name = '', uid } = spec?.volumeSnapshotRef ?? {};
  const snapshot = await find(client, snapshots, { namespace, name });
  if (snapshot === undefined || snapshot.metadata?.uid !== uid) return false;
  const volume = await volumeOf(client, snapshot);
  return volume !== undefined && isOnNode(node, volume) && volume.spec?.csi?.volumeHandle === spec?.source?.volumeHandle;
}

/** Returns the volume of the claim that a VolumeSnapshot is taken from. */
async function volumeOf(client: Client, { metadata, spec }: Snapshot): Promise<PersistentVolume | undefined> {
  const { namespace = '' } = metadata ?? {};
  const claim = await find(client, persistentVolumeClaims, { namespace, name: spec?.source?.persistentVolumeClaimName ?? '' });
  return claim?.spec?.volumeName ? find(client, persistentVolumes, { name: claim.spec.volumeName }) : undefined;
}

const find = <T extends KubeObject>(client: Client, kind: Resource<T>, name: ObjectName): Promise<T | undefined> =>
  client.get(kind, name).catch((error: unknown) => {
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  });

/** Allows a node to write the CSIStorageCapacities of the node's own topology. */
export function admitStorageCapacity(node: string, { operation, object, old }: AdmissionRequest): AdmissionDecision {
  const places = [...(operation === 'DELETE' ? [] : [object]), ...(operation === 'CREATE' ? [] : [old])] as readonly (
    | CSIStorageCapacity
    | undefined
  )[];
  const own = places.every((each) => {
    const { matchLabels = {}, matchExpressions = [] } = each?.nodeTopology ?? {};
    return matchExpressions.length === 0 && Object.values(matchLabels).includes(node);
  });
  return own ? allow : deny(`node ${quoted(node)} can only write CSIStorageCapacities of its own`);
}
