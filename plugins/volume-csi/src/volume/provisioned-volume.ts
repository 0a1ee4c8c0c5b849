import { claimTokens, secretReference, type SecretUse } from '@oarlock/api/component-helpers/class-secrets';
import { matchesNodeSelector } from '@oarlock/api/component-helpers/node-affinity';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { StorageClass } from '@oarlock/api/types/storage-v1';
import type { CsiVolume, VolumeCapability } from '@oarlock/csi/csi-types';
import type { CsiDriver } from '../driver/csi-driver.ts';
import { capability } from './capability.ts';

/** The annotations of provisioned PersistentVolumeClaims and PersistentVolumes. */
export const annotations = {
  provisioner: 'volume.kubernetes.io/storage-provisioner',
  betaProvisioner: 'volume.beta.kubernetes.io/storage-provisioner',
  selectedNode: 'volume.kubernetes.io/selected-node',
  provisionedBy: 'pv.kubernetes.io/provisioned-by',
  deletionSecretName: 'volume.kubernetes.io/provisioner-deletion-secret-name',
  deletionSecretNamespace: 'volume.kubernetes.io/provisioner-deletion-secret-namespace',
};
export const finalizer = 'external-provisioner.volume.kubernetes.io/finalizer';

/** Returns the name of the provisioner that creates the claim's volume. */
export const provisionerOf = ({ metadata }: PersistentVolumeClaim): string | undefined =>
  metadata?.annotations?.[annotations.provisioner] ?? metadata?.annotations?.[annotations.betaProvisioner];

const gibi = 2 ** 30;
const mebi = 2 ** 20;
export const quantityOf = (bytes: number) =>
  bytes % gibi === 0 ? `${bytes / gibi}Gi` : bytes % mebi === 0 ? `${bytes / mebi}Mi` : String(bytes);

export function capabilityOf(
  { spec }: PersistentVolumeClaim,
  { mountOptions, parameters }: StorageClass,
  driver: CsiDriver,
): VolumeCapability {
  return capability(
    { accessModes: spec?.accessModes, volumeMode: spec?.volumeMode, mountOptions, fsType: fsTypeOf(parameters) },
    driver.controllerCapabilities.has('CONTROLLER_SINGLE_NODE_MULTI_WRITER'),
  );
}
const fsTypeOf = (parameters: Readonly<Record<string, string>> | undefined) => parameters?.['csi.storage.k8s.io/fstype'];

/** Returns the references to Secrets that a StorageClass names for later calls. @throws Error if a name contains an unknown variable */
function secretsOf(volumeName: string, claim: PersistentVolumeClaim, { parameters }: StorageClass) {
  const tokens = claimTokens(volumeName, claim);
  const of = (use: SecretUse) => secretReference(parameters, use, tokens);
  const all = {
    controllerPublishSecretRef: of('controller-publish'),
    controllerExpandSecretRef: of('controller-expand'),
    nodeStageSecretRef: of('node-stage'),
    nodePublishSecretRef: of('node-publish'),
    nodeExpandSecretRef: of('node-expand'),
  };
  return Object.fromEntries(Object.entries(all).filter(([, ref]) => ref !== undefined));
}

/** The claim, the class and the CSI volume that a PersistentVolume describes. */
export interface VolumeSources {
  readonly storageClass: StorageClass;
  readonly csiVolume: CsiVolume;
  readonly driver: string;
}

export function volumeFor(
  claim: PersistentVolumeClaim,
  { storageClass, csiVolume: { volumeId, capacityBytes, volumeContext = {}, accessibleTopology = [] }, driver }: VolumeSources,
): PersistentVolume {
  const { metadata = {}, spec = {} } = claim;
  const { reclaimPolicy, mountOptions, parameters } = storageClass;
  const fsType = spec.volumeMode === 'Block' ? undefined : fsTypeOf(parameters);
  const { uid = '', namespace = '', name = '', resourceVersion } = metadata;
  const volumeName = `pvc-${uid}`;
  const deleteWith = secretReference(parameters, 'provisioner', claimTokens(volumeName, claim));
  return {
    metadata: {
      name: volumeName,
      annotations: {
        [annotations.provisionedBy]: driver,
        [annotations.deletionSecretName]: deleteWith?.name ?? '',
        [annotations.deletionSecretNamespace]: deleteWith?.namespace ?? '',
      },
      finalizers: [finalizer],
    },
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
      ...(spec.volumeAttributesClassName && { volumeAttributesClassName: spec.volumeAttributesClassName }),
      csi: {
        driver,
        volumeHandle: volumeId,
        volumeAttributes: volumeContext,
        ...(fsType !== undefined && { fsType }),
        ...secretsOf(volumeName, claim, storageClass),
      },
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

/** Returns true if this instance of the driver handles the volume. */
export function isHere({ spec }: PersistentVolume, { node: { accessibleTopology: topology }, config }: CsiDriver): boolean {
  const required = spec?.nodeAffinity?.required;
  if (required === undefined || topology === undefined || config.central) return true;
  return matchesNodeSelector(required, { metadata: { labels: topology.segments } });
}
