import type { ValidationRule } from '../rule-samples.ts';

const kind = 'PersistentVolumeClaim';
const subresource = 'status';
const classAnnotation = 'volume.beta.kubernetes.io/storage-class';
const withClass = (name: string) => ({ metadata: { annotations: { [classAnnotation]: name } } });
const withAttributes = (name: string | undefined) => ({ spec: { volumeAttributesClassName: name } });
const bound = { status: { phase: 'Bound', currentVolumeAttributesClassName: 'a' } };
const source = { kind: 'PersistentVolumeClaim', name: 'a' };
const immutable =
  'spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n…';

/** Rules of PersistentVolumeClaims and their updates. */
export const claimRules: readonly ValidationRule[] = [
  {
    rule: 'core.ValidatePersistentVolumeClaimSpec: sources that differ',
    kind,
    fields: { spec: { dataSource: source, dataSourceRef: { ...source, name: 'b' } } },
    errors: ['spec: Invalid value: {}: must match dataSourceRef'],
  },
  {
    rule: 'core.ValidatePersistentVolumeClaimSpec: a source in another namespace beside a local one',
    kind,
    fields: { spec: { dataSource: source, dataSourceRef: { ...source, namespace: 'n' } } },
    errors: ['spec: Invalid value: {}: may not be specified when dataSourceRef.namespace is specified'],
  },
  {
    rule: 'core.ValidatePersistentVolumeClaimUpdate: the annotation of the storage class',
    kind,
    fields: withClass('b'),
    old: withClass('a'),
    errors: [`metadata.annotations.${classAnnotation}: Invalid value: "b": field is immutable`],
  },
  {
    rule: 'core.validateStorageClassUpgradeFromNil: the class that the annotation names',
    kind,
    fields: { spec: { storageClassName: 'a' } },
    old: withClass('a'),
    errors: [],
  },
  {
    rule: 'core.validateStorageClassUpgradeFromNil: another class than the annotation names',
    kind,
    fields: { ...withClass('a'), spec: { storageClassName: 'b' } },
    old: withClass('a'),
    errors: [immutable],
  },
  {
    rule: 'core.ValidatePersistentVolumeClaimUpdate: the volume mode',
    kind,
    fields: { spec: { volumeMode: 'Block' } },
    old: { spec: { volumeMode: 'Filesystem' } },
    errors: [immutable, 'volumeMode: Invalid value: "Block": field is immutable'],
  },
  {
    rule: 'core.ValidatePersistentVolumeClaimUpdate: the same size in other words',
    kind,
    fields: { spec: { resources: { requests: { storage: '2048Mi' } } } },
    old: {},
    errors: [],
  },
  {
    rule: 'core.ValidatePersistentVolumeClaimUpdate: an attributes class that was applied is removed',
    kind,
    fields: { ...withAttributes(undefined), ...bound },
    old: { ...withAttributes('a'), ...bound },
    errors: [
      'spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when status.currentVolumeAttributesClassName is not nil',
    ],
  },
  {
    rule: 'core.ValidatePersistentVolumeClaimUpdate: an attributes class that was applied is emptied',
    kind,
    fields: { ...withAttributes(''), ...bound },
    old: { ...withAttributes('a'), ...bound },
    errors: [
      'spec.volumeAttributesClassName: Forbidden: update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil',
    ],
  },
  {
    rule: 'core.ValidatePersistentVolumeClaimUpdate: an attributes class that was not applied is removed',
    kind,
    fields: { ...withAttributes(undefined), status: { phase: 'Bound' } },
    old: { ...withAttributes('a'), status: { phase: 'Bound' } },
    errors: [],
  },
  {
    rule: 'core.ValidatePersistentVolumeClaimStatusUpdate: quantities',
    kind,
    subresource,
    fields: { status: { capacity: { storage: '-1' }, allocatedResources: { storage: '-2', cpu: '1', 'Bad!': '1' } } },
    old: {},
    errors: [
      'status.capacity[storage]: Invalid value: -1: must be a valid resource quantity',
      'status.allocatedResources[storage]: Invalid value: -2: must be a valid resource quantity',
      'status.allocatedResources: Unsupported value: "cpu": supported values: "storage"',
      'status.allocatedResources: Invalid value: "Bad!": …',
    ],
  },
  {
    rule: 'core.ValidatePersistentVolumeClaimStatusUpdate: statuses of a resize',
    kind,
    subresource,
    fields: { status: { allocatedResourceStatuses: { storage: 'Other', 'example.com/a': 'NodeResizePending' } } },
    old: {},
    errors: [
      'status.allocatedResourceStatus: Unsupported value: "storage": supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"',
    ],
  },
];
