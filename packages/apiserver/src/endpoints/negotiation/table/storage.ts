import type { KubeObject } from '@oarlock/api/object';
import type { StorageVersion } from '@oarlock/api/types/internal-v1alpha1';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type {
  CSIDriver,
  CSINode,
  CSIStorageCapacity,
  StorageClass,
  VolumeAttachment,
  VolumeAttributesClass,
} from '@oarlock/api/types/storage-v1';
import { accessModes, ageOf, joinFirst, nameOf, unset } from './cells.ts';
import { columnsOf, type Printer } from './printer.ts';

const classAnnotation = 'volume.beta.kubernetes.io/storage-class';
const defaultAnnotations = ['storageclass.kubernetes.io/is-default-class', 'storageclass.beta.kubernetes.io/is-default-class'];
const phase = (object: PersistentVolume | PersistentVolumeClaim) =>
  object.metadata?.deletionTimestamp ? 'Terminating' : (object.status?.phase ?? '');
const classOf = (object: PersistentVolume | PersistentVolumeClaim) =>
  object.metadata?.annotations?.[classAnnotation] ?? object.spec?.storageClassName ?? '';
const capacity = { name: 'Capacity', description: 'The capacity of the volume.' };
const modes = { name: 'Access Modes', description: 'The access modes of the volume.' };
const shared = [
  { name: 'StorageClass', description: 'The storage class of the volume.' },
  { name: 'VolumeAttributesClass', description: 'The VolumeAttributesClass of the volume.' },
];
const mode = { name: 'VolumeMode', wide: true, description: 'The volume mode: Filesystem or Block.' };

export const volumePrinter: Printer<PersistentVolume> = {
  columns: columnsOf(
    'Name',
    capacity,
    modes,
    { name: 'Reclaim Policy', description: 'What happens to the volume after its claim is deleted.' },
    { name: 'Status', description: 'The phase of the volume.' },
    { name: 'Claim', description: 'The claim that the volume is bound to.' },
    ...shared,
    { name: 'Reason', description: 'The reason of the current phase.' },
    'Age',
    mode,
  ),
  cells(object, now) {
    const { spec, status } = object;
    const claim = spec?.claimRef === undefined ? '' : `${spec.claimRef.namespace ?? ''}/${spec.claimRef.name ?? ''}`;
    return [
      nameOf(object),
      String(spec?.capacity?.['storage'] ?? '0'),
      accessModes(spec?.accessModes),
      spec?.persistentVolumeReclaimPolicy ?? '',
      phase(object),
      claim,
      classOf(object),
      spec?.volumeAttributesClassName ?? unset,
      status?.reason ?? '',
      ageOf(object, now),
      spec?.volumeMode ?? unset,
    ];
  },
};

export const claimPrinter: Printer<PersistentVolumeClaim> = {
  columns: columnsOf(
    'Name',
    { name: 'Status', description: 'The phase of the claim.' },
    { name: 'Volume', description: 'The volume that the claim is bound to.' },
    capacity,
    modes,
    ...shared,
    'Age',
    mode,
  ),
  cells(object, now) {
    const { spec, status } = object;
    const bound = spec?.volumeName !== undefined && spec.volumeName !== '';
    return [
      nameOf(object),
      phase(object),
      spec?.volumeName ?? '',
      bound ? String(status?.capacity?.['storage'] ?? '0') : '',
      bound ? accessModes(status?.accessModes) : '',
      classOf(object),
      spec?.volumeAttributesClassName ?? unset,
      ageOf(object, now),
      spec?.volumeMode ?? unset,
    ];
  },
};

export const storageClassPrinter: Printer<StorageClass> = {
  columns: columnsOf(
    'Name',
    { name: 'Provisioner', description: 'The provisioner that creates the volumes.' },
    { name: 'ReclaimPolicy', description: 'What happens to volumes after their claims are deleted.' },
    { name: 'VolumeBindingMode', description: 'When volumes are bound and provisioned.' },
    { name: 'AllowVolumeExpansion', description: 'True if claims of the class can be expanded.' },
    'Age',
  ),
  cells(object, now) {
    const isDefault = defaultAnnotations.some((annotation) => object.metadata?.annotations?.[annotation] === 'true');
    const name = isDefault ? `${nameOf(object)} (default)` : nameOf(object);
    return [
      name,
      object.provisioner ?? '',
      object.reclaimPolicy ?? 'Delete',
      object.volumeBindingMode ?? 'Immediate',
      object.allowVolumeExpansion ?? false,
      ageOf(object, now),
    ];
  },
};

interface Migration extends KubeObject {
  readonly spec?: { readonly resource?: { readonly group?: string; readonly resource?: string } };
}
export const storageVersionMigrationPrinter: Printer<Migration> = {
  columns: columnsOf({ name: 'Name', format: '' }, { name: 'Resource', description: 'The resource whose objects are rewritten.' }),
  cells: (object) => [nameOf(object), `${object.spec?.resource?.resource ?? ''}.${object.spec?.resource?.group ?? ''}`],
};

export const storageVersionPrinter: Printer<StorageVersion> = {
  columns: columnsOf(
    'Name',
    { name: 'CommonEncodingVersion', description: 'The version that all API servers store.' },
    { name: 'StorageVersions', description: 'The version that each API server stores.' },
    'Age',
  ),
  cells(object, now) {
    const { commonEncodingVersion = unset, storageVersions = [] } = object.status ?? {};
    const versions = storageVersions.map(({ apiServerID = '', encodingVersion = '' }) => `${apiServerID}=${encodingVersion}`);
    return [nameOf(object), commonEncodingVersion, joinFirst(versions, unset), ageOf(object, now)];
  },
};

export const volumeAttributesClassPrinter: Printer<VolumeAttributesClass> = {
  columns: columnsOf('Name', { name: 'DriverName', description: 'The CSI driver of the class.' }, 'Age'),
  cells: (object, now) => [nameOf(object), object.driverName ?? '', ageOf(object, now)],
};

export const volumeAttachmentPrinter: Printer<VolumeAttachment> = {
  columns: columnsOf(
    'Name',
    { name: 'Attacher', format: 'name', description: 'The CSI driver that attaches the volume.' },
    { name: 'PV', description: 'The volume to attach.' },
    { name: 'Node', description: 'The node that the volume is attached to.' },
    { name: 'Attached', type: 'boolean', description: 'True if the volume is attached.' },
    'Age',
  ),
  cells: (object, now) => [
    nameOf(object),
    object.spec?.attacher ?? '',
    object.spec?.source?.persistentVolumeName ?? '',
    object.spec?.nodeName ?? '',
    object.status?.attached ?? false,
    ageOf(object, now),
  ],
};

export const csiDriverPrinter: Printer<CSIDriver> = {
  columns: columnsOf(
    'Name',
    { name: 'AttachRequired', type: 'boolean', description: 'True if volumes are attached before they are mounted.' },
    { name: 'PodInfoOnMount', type: 'boolean', description: 'True if the driver receives pod information on mount.' },
    { name: 'StorageCapacity', type: 'boolean', description: 'True if the scheduler considers the reported storage capacity.' },
    { name: 'TokenRequests', description: 'The audiences of the service account tokens that the driver receives.' },
    { name: 'RequiresRepublish', type: 'boolean', description: 'True if the kubelet republishes volumes periodically.' },
    { name: 'Modes', description: 'The volume lifecycle modes that the driver supports.' },
    'Age',
  ),
  cells(object, now) {
    const { spec } = object;
    return [
      nameOf(object),
      spec?.attachRequired ?? true,
      spec?.podInfoOnMount ?? false,
      spec?.storageCapacity ?? false,
      (spec?.tokenRequests ?? []).map(({ audience }) => audience).join(',') || unset,
      spec?.requiresRepublish ?? false,
      (spec?.volumeLifecycleModes ?? []).join(',') || '<none>',
      ageOf(object, now),
    ];
  },
};

export const csiNodePrinter: Printer<CSINode> = {
  columns: columnsOf('Name', { name: 'Drivers', type: 'integer', description: 'The number of drivers on the node.' }, 'Age'),
  cells: (object, now) => [nameOf(object), object.spec?.drivers?.length ?? 0, ageOf(object, now)],
};

export const storageCapacityPrinter: Printer<CSIStorageCapacity> = {
  columns: columnsOf(
    'Name',
    { name: 'StorageClassName', description: 'The storage class that the capacity applies to.' },
    { name: 'Capacity', description: 'The available capacity.' },
  ),
  cells: (object) => [nameOf(object), object.storageClassName ?? '', String(object.capacity ?? '')],
};
