import { own } from '@oarlock/api/json/json';
import { matchesNodeSelector } from '@oarlock/api/component-helpers/node-affinity';
import { selectorFromLabelSelector } from '@oarlock/api/selectors/label-selector';
import { compareQuantity, quantityValue } from '@oarlock/api/values/quantity';
import type { Node, PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { CSIStorageCapacity, StorageClass } from '@oarlock/api/types/storage-v1';
import { classNameOf } from './pod-volume-claims.ts';

const sizeOf = ({ spec }: PersistentVolume) => spec?.capacity?.['storage'] ?? '0';
export const requestOf = ({ spec }: PersistentVolumeClaim) => spec?.resources?.requests?.['storage'] ?? '0';
const modeOf = ({ spec }: PersistentVolume | PersistentVolumeClaim) => spec?.volumeMode ?? 'Filesystem';

/** Returns true if the volume's node affinity matches the node. */
export function matchesNodeAffinity(volume: PersistentVolume, node: Node): boolean {
  const required = volume.spec?.nodeAffinity?.required;
  return required === undefined || matchesNodeSelector(required, node);
}

const isReservedFor = ({ spec }: PersistentVolume, { metadata }: PersistentVolumeClaim): boolean => {
  const ref = spec?.claimRef;
  return (
    ref !== undefined && ref.name === metadata?.name && ref.namespace === metadata?.namespace && (!ref.uid || ref.uid === metadata?.uid)
  );
};

/**
 * Returns the volume to bind to a claim on a node, or undefined: a volume whose claimRef names the claim, otherwise the smallest available volume
 * that is large enough. Skips the volumes in `excluded`.
 */
export function findMatchingVolume(
  claim: PersistentVolumeClaim,
  volumes: readonly PersistentVolume[],
  node: Node,
  excluded: ReadonlySet<string>,
): PersistentVolume | undefined {
  const selector = claim.spec?.selector && selectorFromLabelSelector(claim.spec.selector);
  const requested = requestOf(claim);
  let best: PersistentVolume | undefined;
  for (const volume of volumes) {
    const { metadata, spec, status } = volume;
    if (excluded.has(metadata?.name ?? '')) continue;
    if (spec?.claimRef !== undefined && !isReservedFor(volume, claim)) continue;
    if (compareQuantity(sizeOf(volume), requested) < 0 || modeOf(volume) !== modeOf(claim)) continue;
    if ((spec?.volumeAttributesClassName ?? '') !== (claim.spec?.volumeAttributesClassName ?? '')) continue;
    if (metadata?.deletionTimestamp !== undefined || !matchesNodeAffinity(volume, node)) continue;
    if (spec?.claimRef !== undefined) return volume;
    if (status?.phase !== 'Available' || (selector !== undefined && !selector.matches(metadata?.labels))) continue;
    if (classNameOf(volume) !== classNameOf(claim)) continue;
    if (!(claim.spec?.accessModes ?? []).every((mode) => spec?.accessModes?.includes(mode))) continue;
    const smaller = best === undefined ? -1 : compareQuantity(sizeOf(volume), sizeOf(best));
    if (smaller < 0 || (smaller === 0 && (metadata?.name ?? '') < (best?.metadata?.name ?? ''))) best = volume;
  }
  return best;
}

/** Returns true if the allowedTopologies of a StorageClass include the node. A StorageClass without allowedTopologies allows all nodes. */
export function allowsNode({ allowedTopologies = [] }: StorageClass, { metadata }: Node): boolean {
  return (
    allowedTopologies.length === 0 ||
    allowedTopologies.some(({ matchLabelExpressions = [] }) =>
      matchLabelExpressions.every(({ key, values }) => values.includes(own(metadata?.labels, key) ?? '')),
    )
  );
}

/** Returns true if a CSIStorageCapacity whose topology includes the node is large enough for the claim (KEP-1472). */
export function hasCapacity(claim: PersistentVolumeClaim, node: Node, capacities: readonly CSIStorageCapacity[]): boolean {
  const bytes = quantityValue(requestOf(claim));
  return capacities.some(({ capacity, maximumVolumeSize, nodeTopology, storageClassName }) => {
    const limit = maximumVolumeSize ?? capacity;
    return (
      storageClassName === classNameOf(claim) &&
      limit !== undefined &&
      quantityValue(limit) >= bytes &&
      nodeTopology !== undefined &&
      selectorFromLabelSelector(nodeTopology).matches(node.metadata?.labels)
    );
  });
}
