import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { StorageClass } from '@oarlock/api/types/storage-v1';
import type { CsiVolume, Topology, VolumeCapability } from '@oarlock/csi/csi-types';
import type { CsiDriver } from './csi-driver.ts';
import { accessMode } from './csi-volumes.ts';

/** What claims, volumes and those who look after them say to each other. */
export const annotations = {
  provisioner: 'volume.kubernetes.io/storage-provisioner',
  betaProvisioner: 'volume.beta.kubernetes.io/storage-provisioner',
  selectedNode: 'volume.kubernetes.io/selected-node',
  provisionedBy: 'pv.kubernetes.io/provisioned-by',
};
export const finalizer = 'external-provisioner.volume.kubernetes.io/finalizer';

/** Who is to make the volume of a claim. */
export const provisionerOf = ({ metadata }: PersistentVolumeClaim): string | undefined =>
  metadata?.annotations?.[annotations.provisioner] ?? metadata?.annotations?.[annotations.betaProvisioner];

const gibi = 2 ** 30;
const mebi = 2 ** 20;
export const quantityOf = (bytes: number) =>
  bytes % gibi === 0 ? `${bytes / gibi}Gi` : bytes % mebi === 0 ? `${bytes / mebi}Mi` : String(bytes);

export function capabilityOf(
  { spec }: PersistentVolumeClaim,
  { mountOptions = [], parameters }: StorageClass,
  driver: CsiDriver,
): VolumeCapability {
  const mode = {
    accessMode: { mode: accessMode(spec?.accessModes, driver.controllerAbilities.has('CONTROLLER_SINGLE_NODE_MULTI_WRITER')) },
  };
  if (spec?.volumeMode === 'Block') return { block: {}, ...mode };
  const fsType = parameters?.['csi.storage.k8s.io/fstype'];
  return { mount: { ...(fsType !== undefined && { fsType }), mountFlags: mountOptions }, ...mode };
}

export function volumeFor(
  { metadata = {}, spec = {} }: PersistentVolumeClaim,
  { reclaimPolicy, mountOptions, parameters }: StorageClass,
  { volumeId, capacityBytes, volumeContext = {}, accessibleTopology = [] }: CsiVolume,
  driver: string,
): PersistentVolume {
  const fsType = parameters?.['csi.storage.k8s.io/fstype'];
  const { uid = '', namespace = '', name = '', resourceVersion } = metadata;
  return {
    metadata: { name: `pvc-${uid}`, annotations: { [annotations.provisionedBy]: driver }, finalizers: [finalizer] },
    spec: {
      accessModes: spec.accessModes ?? [],
      capacity: { storage: capacityBytes > 0 ? quantityOf(capacityBytes) : (spec.resources?.requests?.['storage'] ?? '0') },
      claimRef: {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        name,
        namespace,
        uid,
        ...(resourceVersion !== undefined && { resourceVersion }),
      },
      persistentVolumeReclaimPolicy: reclaimPolicy ?? 'Delete',
      storageClassName: spec.storageClassName ?? '',
      volumeMode: spec.volumeMode ?? 'Filesystem',
      ...(mountOptions && { mountOptions }),
      csi: { driver, volumeHandle: volumeId, volumeAttributes: volumeContext, ...(fsType !== undefined && { fsType }) },
      ...(accessibleTopology.length > 0 && {
        nodeAffinity: {
          required: { nodeSelectorTerms: accessibleTopology.map(({ segments }) => ({ matchExpressions: expressions(segments) })) },
        },
      }),
    },
  };
}

const expressions = (segments: Readonly<Record<string, string>>) =>
  Object.entries(segments).map(([key, segment]) => ({ key, operator: 'In', values: [segment] }));

/** Whether this node's driver is the one that has the volume. */
export function isHere({ spec }: PersistentVolume, topology: Topology | undefined): boolean {
  const terms = spec?.nodeAffinity?.required?.nodeSelectorTerms;
  if (terms === undefined || topology === undefined) return true;
  return terms.some(({ matchExpressions = [] }) =>
    matchExpressions.every(({ key, values = [] }) => values.includes(topology.segments[key] ?? '')),
  );
}
