import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import type { PersistentVolume } from '@oarlock/api/types/core-v1';
import type { VolumeAttachment } from '@oarlock/api/types/storage-v1';
import { allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Client } from '@oarlock/spi/client';
import { admitNewVolume, fixedFields } from './volume-secrets.ts';

// Nodes that provision their own volumes (csi-hostpath on a joined node) have a role for it. These rules restrict them to volumes on the
// node.

const quoted = JSON.stringify;

/** Returns true if the volume belongs to a CSI driver and only this node can access it. */
export function isOnNode(node: string, { spec }: PersistentVolume): boolean {
  const terms = spec?.nodeAffinity?.required?.nodeSelectorTerms ?? [];
  return (
    spec?.csi !== undefined &&
    terms.length > 0 &&
    terms.every(({ matchExpressions = [] }) =>
      matchExpressions.some(({ operator, values }) => operator === 'In' && jsonEqual(values ?? [], [node])),
    )
  );
}

/** Admits writes of PersistentVolumes that only this node can access. Their secrets must be those of the claim's StorageClass. */
export async function admitPersistentVolume(
  client: Client,
  node: string,
  { operation, object, old }: AdmissionRequest,
): Promise<AdmissionDecision> {
  const all = [...(operation === 'DELETE' ? [] : [object]), ...(operation === 'CREATE' ? [] : [old])] as readonly (
    | PersistentVolume
    | undefined
  )[];
  if (!all.every((volume) => volume !== undefined && isOnNode(node, volume)))
    return deny(`node ${quoted(node)} can only write PersistentVolumes of CSI drivers that no other node reaches`);
  if (operation === 'CREATE') return admitNewVolume(client, node, object ?? {});
  if (operation === 'DELETE' || jsonEqual(fixedFields(object ?? {}), fixedFields(old ?? {}))) return allow;
  return deny(`node ${quoted(node)} can only update the capacity, the attributes class and the metadata of PersistentVolumes`);
}
/**
 * Allows a node to clear the selected node of a PersistentVolumeClaim that the node cannot provision, and to set the finalizers of sources. The
 * spec must not change.
 */
export function admitPersistentVolumeClaim(node: string, { operation, object, old }: AdmissionRequest): AdmissionDecision {
  if (operation !== 'UPDATE') return deny(`unexpected operation ${quoted(operation)}`);
  const rest = ({ metadata, ...others }: KubeObject) => {
    const { [selectedNode]: _free, ...annotations } = metadata?.annotations ?? {};
    const finalizers = (metadata?.finalizers ?? []).filter((each) => !sourceFinalizers.has(each));
    return { ...others, metadata: { ...metadata, annotations, finalizers, managedFields: undefined, resourceVersion: undefined } };
  };
  const chosen = (claim: KubeObject | undefined) => claim?.metadata?.annotations?.[selectedNode];
  const same = jsonEqual(plain(rest(object ?? {})), plain(rest(old ?? {})));
  const lets = chosen(object) === chosen(old) || (chosen(object) === undefined && chosen(old) === node);
  return same && lets ? allow : deny(`node ${quoted(node)} is not allowed to change PersistentVolumeClaims`);
}
const selectedNode = 'volume.kubernetes.io/selected-node';
/** The finalizers of a claim whose volume is the source of a snapshot or of a clone. */
const sourceFinalizers: ReadonlySet<string> = new Set([
  'snapshot.storage.kubernetes.io/pvc-as-source-protection',
  'provisioner.storage.kubernetes.io/cloning-protection',
]);
const plain = (value: object): unknown => JSON.parse(JSON.stringify(value));

export function admitVolumeAttachment(node: string, { object, old }: AdmissionRequest): AdmissionDecision {
  const { nodeName } = ((old ?? object) as VolumeAttachment | undefined)?.spec ?? {};
  return nodeName === node ? allow : deny(`node ${quoted(node)} can only write VolumeAttachments of its own`);
}
