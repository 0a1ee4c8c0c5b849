import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject, ObjectMeta } from '@oarlock/api/object';
import { resource, type Resource } from '@oarlock/api/resource';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
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
  readonly spec?: { readonly source?: { readonly snapshotHandle?: string } };
}
const contents = resource<Content>('snapshot.storage.k8s.io', 'v1', 'volumesnapshotcontents', 'VolumeSnapshotContent', false);

const quoted = JSON.stringify;
export const managedBy = 'snapshot.storage.kubernetes.io/managed-by';
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
  { node, snapshot: { metadata, spec }, contentName }: { readonly node: string; readonly snapshot: Snapshot; readonly contentName: string },
): Promise<boolean> {
  const find = <T extends KubeObject>(kind: Resource<T>, name: ObjectName): Promise<T | undefined> =>
    client.get(kind, name).catch((error: unknown) => {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    });
  const content = await find(contents, { name: contentName });
  if (content !== undefined) {
    const by = content.metadata?.labels?.[managedBy];
    // a pre-provisioned content belongs to the node whose driver has the snapshot
    return by === node || (by === undefined && content.spec?.source?.snapshotHandle !== undefined);
  }
  const { namespace = '' } = metadata ?? {};
  const claim = await find(persistentVolumeClaims, { namespace, name: spec?.source?.persistentVolumeClaimName ?? '' });
  const volume = claim?.spec?.volumeName ? await find(persistentVolumes, { name: claim.spec.volumeName }) : undefined;
  // without a volume of the claim, no other node can report the error
  return volume === undefined || isOnNode(node, volume);
}

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
