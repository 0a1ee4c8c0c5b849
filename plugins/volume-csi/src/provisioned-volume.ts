import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { StorageClass } from '@oarlock/api/types/storage-v1';
import type { CsiVolume, VolumeCapability } from '@oarlock/csi/csi-types';
import type { CsiDriver } from './csi-driver.ts';
import { capability } from './capability.ts';
import { claimTokens, secretReference, type SecretUse } from './secrets.ts';

/** What claims, volumes and those who look after them say to each other. */
export const annotations = {
  provisioner: 'volume.kubernetes.io/storage-provisioner',
  betaProvisioner: 'volume.beta.kubernetes.io/storage-provisioner',
  selectedNode: 'volume.kubernetes.io/selected-node',
  provisionedBy: 'pv.kubernetes.io/provisioned-by',
  deletionSecretName: 'volume.kubernetes.io/provisioner-deletion-secret-name',
  deletionSecretNamespace: 'volume.kubernetes.io/provisioner-deletion-secret-namespace',
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
  { mountOptions, parameters }: StorageClass,
  driver: CsiDriver,
): VolumeCapability {
  return capability(
    { accessModes: spec?.accessModes, volumeMode: spec?.volumeMode, mountOptions, fsType: fsTypeOf(parameters) },
    driver.controllerAbilities.has('CONTROLLER_SINGLE_NODE_MULTI_WRITER'),
  );
}
const fsTypeOf = (parameters: Readonly<Record<string, string>> | undefined) => parameters?.['csi.storage.k8s.io/fstype'];

/** The Secrets that a volume's class names, for those who will need them. @throws Error for a name that stands for nothing */
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

export function volumeFor(
  claim: PersistentVolumeClaim,
  storageClass: StorageClass,
  { volumeId, capacityBytes, volumeContext = {}, accessibleTopology = [] }: CsiVolume,
  driver: string,
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

/** Whether this node's driver is the one that looks after the volume. */
export function isHere({ spec }: PersistentVolume, { node: { accessibleTopology: topology }, config }: CsiDriver): boolean {
  const terms = spec?.nodeAffinity?.required?.nodeSelectorTerms;
  if (terms === undefined || topology === undefined || config.central) return true;
  return terms.some(({ matchExpressions = [] }) =>
    matchExpressions.every(({ key, values = [] }) => values.includes(topology.segments[key] ?? '')),
  );
}
