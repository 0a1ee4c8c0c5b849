import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type {
  CSIDriver,
  CSINode,
  CSIStorageCapacity,
  StorageClass,
  VolumeAttachment,
  VolumeAttributesClass,
} from '@oarlock/api/types/storage-v1';
import { accessModes, ageOf, nameOf, unset } from './cells.ts';
import { columnsOf, type Printer } from './printer.ts';

const classAnnotation = 'volume.beta.kubernetes.io/storage-class';
const defaultAnnotation = 'storageclass.kubernetes.io/is-default-class';
const phase = (object: PersistentVolume | PersistentVolumeClaim) =>
  object.metadata?.deletionTimestamp ? 'Terminating' : (object.status?.phase ?? '');
const classOf = (object: PersistentVolume | PersistentVolumeClaim) =>
  object.metadata?.annotations?.[classAnnotation] ?? object.spec?.storageClassName ?? '';
const capacity = { name: 'Capacity', about: 'How much it holds.' };
const modes = { name: 'Access Modes', about: 'How it may be mounted.' };
const shared = [
  { name: 'StorageClass', about: 'The class it is of.' },
  { name: 'VolumeAttributesClass', about: 'The class of its changeable attributes.' },
];
const mode = { name: 'VolumeMode', wide: true, about: 'Filesystem or Block.' };

export const volumePrinter: Printer<PersistentVolume> = {
  columns: columnsOf(
    'Name',
    capacity,
    modes,
    { name: 'Reclaim Policy', about: 'What happens to it after its claim.' },
    { name: 'Status', about: 'Whether it is claimed.' },
    { name: 'Claim', about: 'The claim it is bound to.' },
    ...shared,
    { name: 'Reason', about: 'Why it failed.' },
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
    { name: 'Status', about: 'Whether it has its volume.' },
    { name: 'Volume', about: 'The volume it is bound to.' },
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
    { name: 'Provisioner', about: 'Who makes its volumes.' },
    { name: 'ReclaimPolicy', about: 'What happens to its volumes after their claims.' },
    { name: 'VolumeBindingMode', about: 'When its volumes are made.' },
    { name: 'AllowVolumeExpansion', about: 'Whether its volumes may grow.' },
    'Age',
  ),
  cells(object, now) {
    const name = object.metadata?.annotations?.[defaultAnnotation] === 'true' ? `${nameOf(object)} (default)` : nameOf(object);
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

export const volumeAttributesClassPrinter: Printer<VolumeAttributesClass> = {
  columns: columnsOf('Name', { name: 'DriverName', about: 'The driver it is for.' }, 'Age'),
  cells: (object, now) => [nameOf(object), object.driverName ?? '', ageOf(object, now)],
};

export const volumeAttachmentPrinter: Printer<VolumeAttachment> = {
  columns: columnsOf(
    'Name',
    { name: 'Attacher', about: 'The driver that attaches it.' },
    { name: 'PV', about: 'The volume.' },
    { name: 'Node', about: 'Where it is attached.' },
    { name: 'Attached', about: 'Whether it is.' },
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
    { name: 'AttachRequired', about: 'Whether volumes are attached first.' },
    { name: 'PodInfoOnMount', about: 'Whether it is told of the pod.' },
    { name: 'StorageCapacity', about: 'Whether the scheduler asks for room.' },
    { name: 'TokenRequests', about: 'Audiences of the tokens it needs.' },
    { name: 'RequiresRepublish', about: 'Whether mounts are repeated.' },
    { name: 'Modes', about: 'Volume life cycles it knows.' },
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
  columns: columnsOf('Name', { name: 'Drivers', type: 'integer', about: 'Drivers that run on the node.' }, 'Age'),
  cells: (object, now) => [nameOf(object), object.spec?.drivers?.length ?? 0, ageOf(object, now)],
};

export const storageCapacityPrinter: Printer<CSIStorageCapacity> = {
  columns: columnsOf(
    'Name',
    { name: 'StorageClassName', about: 'The class whose volumes it is about.' },
    { name: 'Capacity', about: 'How much there is left.' },
  ),
  cells: (object) => [nameOf(object), object.storageClassName ?? '', String(object.capacity ?? '')],
};
