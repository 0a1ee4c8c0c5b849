import type { PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec } from '../../../generated/types/core-v1.ts';
import type { CSIStorageCapacity, StorageClass } from '../../../generated/types/storage-v1.ts';
import type { ObjectMeta } from '../../../object.ts';
import { fractionalBytesWarnings } from './container-warnings.ts';
import { nodeLabelDeprecation, nodeLabelSelectorWarnings, nodeSelectorTermWarnings } from './node-label-warnings.ts';

const storageClassAnnotation = 'volume.beta.kubernetes.io/storage-class';
const storageClassWarnings = (meta: ObjectMeta | undefined): readonly string[] =>
  meta?.annotations !== undefined && Object.hasOwn(meta.annotations, storageClassAnnotation)
    ? [`metadata.annotations[${storageClassAnnotation}]: deprecated since v1.8; use "storageClassName" attribute instead`]
    : [];

export function claimSpecWarnings(path: string, spec: PersistentVolumeClaimSpec | undefined): readonly string[] {
  return [
    ...fractionalBytesWarnings(`${path}.resources.requests[storage]`, spec?.resources?.requests?.['storage']),
    ...fractionalBytesWarnings(`${path}.resources.limits[storage]`, spec?.resources?.limits?.['storage']),
  ];
}

export const persistentVolumeClaimWarnings = ({ metadata, spec }: PersistentVolumeClaim): readonly string[] => [
  ...storageClassWarnings(metadata),
  ...claimSpecWarnings('spec', spec),
];

const deprecatedVolumes: readonly (readonly [member: string, name: string, message: string])[] = [
  ['cephfs', 'cephfs', 'deprecated in v1.28, non-functional in v1.31+'],
  ['photonPersistentDisk', 'photonPersistentDisk', 'deprecated in v1.11, non-functional in v1.16+'],
  ['scaleIO', 'scaleIO', 'deprecated in v1.16, non-functional in v1.22+'],
  ['storageos', 'storageOS', 'deprecated in v1.22, non-functional in v1.25+'],
  ['glusterfs', 'glusterfs', 'deprecated in v1.25, non-functional in v1.26+'],
  ['rbd', 'rbd', 'deprecated in v1.28, non-functional in v1.31+'],
];

export function persistentVolumeWarnings({ metadata, spec = {} }: PersistentVolume): readonly string[] {
  return [
    ...storageClassWarnings(metadata),
    ...(spec.persistentVolumeReclaimPolicy === 'Recycle'
      ? [
          'spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.',
        ]
      : []),
    ...(spec.nodeAffinity?.required?.nodeSelectorTerms ?? []).flatMap((term, i) =>
      nodeSelectorTermWarnings(`spec.nodeAffinity.required.nodeSelectorTerms[${i}]`, term),
    ),
    ...deprecatedVolumes.filter(([member]) => Object.hasOwn(spec, member)).map(([, name, message]) => `spec.${name}: ${message}`),
  ];
}

export const classWarnings = ({ allowedTopologies = [] }: StorageClass): readonly string[] =>
  allowedTopologies.flatMap(({ matchLabelExpressions = [] }, i) =>
    matchLabelExpressions.flatMap(({ key }, j) => {
      const message = nodeLabelDeprecation(key);
      return message === undefined ? [] : [`allowedTopologies[${i}].matchLabelExpressions[${j}].key: ${message}`];
    }),
  );

export const storageCapacityWarnings = ({ nodeTopology }: CSIStorageCapacity): readonly string[] =>
  nodeLabelSelectorWarnings('nodeTopology', nodeTopology);
