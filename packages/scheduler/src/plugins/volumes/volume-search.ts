import { selectorFromObject } from '@oarlock/api/label-selector';
import { compareQuantity, value } from '@oarlock/api/quantity';
import type { Node, PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { CSIStorageCapacity, StorageClass } from '@oarlock/api/types/storage-v1';
import { matchesSelector } from '../node-affinity-match.ts';
import { classNameOf } from './claims.ts';

const sizeOf = ({ spec }: PersistentVolume) => spec?.capacity?.['storage'] ?? '0';
export const requestOf = ({ spec }: PersistentVolumeClaim) => spec?.resources?.requests?.['storage'] ?? '0';
const modeOf = ({ spec }: PersistentVolume | PersistentVolumeClaim) => spec?.volumeMode ?? 'Filesystem';

/** Whether a node can reach a volume. */
export function reaches(volume: PersistentVolume, node: Node): boolean {
  const required = volume.spec?.nodeAffinity?.required;
  return required === undefined || matchesSelector(node, required);
}

const isFor = ({ spec }: PersistentVolume, { metadata }: PersistentVolumeClaim): boolean => {
  const ref = spec?.claimRef;
  return (
    ref !== undefined && ref.name === metadata?.name && ref.namespace === metadata?.namespace && (!ref.uid || ref.uid === metadata?.uid)
  );
};

/** The volume for a claim on a node: one that is kept for it, else the smallest free one that is large enough and not `taken`. */
export function findVolume(
  claim: PersistentVolumeClaim,
  volumes: readonly PersistentVolume[],
  node: Node,
  taken: ReadonlySet<string>,
): PersistentVolume | undefined {
  const selector = claim.spec?.selector && selectorFromObject(claim.spec.selector);
  const wanted = requestOf(claim);
  let best: PersistentVolume | undefined;
  for (const volume of volumes) {
    const { metadata, spec, status } = volume;
    if (taken.has(metadata?.name ?? '')) continue;
    if (spec?.claimRef !== undefined && !isFor(volume, claim)) continue;
    if (compareQuantity(sizeOf(volume), wanted) < 0 || modeOf(volume) !== modeOf(claim)) continue;
    if ((spec?.volumeAttributesClassName ?? '') !== (claim.spec?.volumeAttributesClassName ?? '')) continue;
    if (metadata?.deletionTimestamp !== undefined || !reaches(volume, node)) continue;
    if (spec?.claimRef !== undefined) return volume;
    if (status?.phase !== 'Available' || (selector !== undefined && !selector.matches(metadata?.labels))) continue;
    if (classNameOf(volume) !== classNameOf(claim)) continue;
    if (!(claim.spec?.accessModes ?? []).every((mode) => spec?.accessModes?.includes(mode))) continue;
    const smaller = best === undefined ? -1 : compareQuantity(sizeOf(volume), sizeOf(best));
    if (smaller < 0 || (smaller === 0 && (metadata?.name ?? '') < (best?.metadata?.name ?? ''))) best = volume;
  }
  return best;
}

/** Whether a class makes volumes where the node is; no topologies: everywhere. */
export function allowsNode({ allowedTopologies = [] }: StorageClass, { metadata }: Node): boolean {
  return (
    allowedTopologies.length === 0 ||
    allowedTopologies.some(({ matchLabelExpressions = [] }) =>
      matchLabelExpressions.every(({ key, values }) => values.includes(metadata?.labels?.[key] ?? '')),
    )
  );
}

/** Whether a segment of the storage of a driver that the node reaches has room (KEP-1472). */
export function hasCapacity(claim: PersistentVolumeClaim, node: Node, capacities: readonly CSIStorageCapacity[]): boolean {
  const bytes = value(requestOf(claim));
  return capacities.some(({ capacity, maximumVolumeSize, nodeTopology, storageClassName }) => {
    const limit = maximumVolumeSize ?? capacity;
    return (
      storageClassName === classNameOf(claim) &&
      limit !== undefined &&
      value(limit) >= bytes &&
      nodeTopology !== undefined &&
      selectorFromObject(nodeTopology).matches(node.metadata?.labels)
    );
  });
}
