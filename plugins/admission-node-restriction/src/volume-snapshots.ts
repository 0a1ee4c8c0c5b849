import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject, ObjectMeta } from '@oarlock/api/object';
import { resource, type Resource } from '@oarlock/api/resource';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { CSIStorageCapacity } from '@oarlock/api/types/storage-v1';
import { allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Client, ObjectName } from '@oarlock/spi/client';
import { isOnNode } from './volumes.ts';

// Nodes that make volumes of their own take snapshots of them, too. Here they are held to snapshots of volumes that are on them.

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
/** What whoever looks after a snapshot holds it by. */
const held: ReadonlySet<string> = new Set([
  'snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection',
  'snapshot.storage.kubernetes.io/volumesnapshot-bound-protection',
]);

/** A node holds a snapshot of its own volumes, says which class it got, and how it goes. */
export async function admitVolumeSnapshot(client: Client, node: string, request: AdmissionRequest): Promise<AdmissionDecision> {
  const { operation, subresource, object, old } = request;
  if (operation !== 'UPDATE') return deny(`unexpected operation ${quoted(operation)}`);
  const [before, after]: readonly [Snapshot, Snapshot] = [old ?? {}, object ?? {}];
  const contentName = contentOf(before);
  const told = after.status?.boundVolumeSnapshotContentName;
  const same =
    subresource === 'status' ? told === undefined || told === contentName : jsonEqual(plain(after, before), plain(before, before));
  return same && (await isReachableFromNode(client, node, before, contentName))
    ? allow
    : deny(`node ${quoted(node)} can only look after VolumeSnapshots of volumes that no other node reaches`);
}

/** What a node may not change. A class that nobody has asked for is chosen for them. */
function plain({ metadata, spec = {}, ...others }: Snapshot, before: Snapshot): unknown {
  const { finalizers = [], ...rest }: ObjectMeta = metadata ?? {};
  const { volumeSnapshotClassName, ...wanted } = spec;
  const asked = before.spec?.volumeSnapshotClassName === undefined ? {} : { volumeSnapshotClassName };
  const foreign = finalizers.filter((each) => !held.has(each));
  const own = { ...rest, finalizers: foreign, managedFields: undefined, resourceVersion: undefined, generation: undefined };
  return JSON.parse(JSON.stringify({ ...others, status: undefined, metadata: own, spec: { ...wanted, ...asked } }));
}

const contentOf = ({ metadata, spec, status }: Snapshot): string =>
  status?.boundVolumeSnapshotContentName ?? spec?.source?.volumeSnapshotContentName ?? `snapcontent-${metadata?.uid}`;

async function isReachableFromNode(client: Client, node: string, { metadata, spec }: Snapshot, contentName: string): Promise<boolean> {
  const find = <T extends KubeObject>(kind: Resource<T>, name: ObjectName): Promise<T | undefined> =>
    client.get(kind, name).catch((error: unknown) => {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    });
  const content = await find(contents, { name: contentName });
  if (content !== undefined) {
    const by = content.metadata?.labels?.[managedBy];
    // one that somebody brings is the node's that finds it
    return by === node || (by === undefined && content.spec?.source?.snapshotHandle !== undefined);
  }
  const { namespace = '' } = metadata ?? {};
  const claim = await find(persistentVolumeClaims, { namespace, name: spec?.source?.persistentVolumeClaimName ?? '' });
  const volume = claim?.spec?.volumeName ? await find(persistentVolumes, { name: claim.spec.volumeName }) : undefined;
  // of a claim that has no volume nobody else would say so
  return volume === undefined || isOnNode(node, volume);
}

/** How much room there is on a node is what that node alone says. */
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
