import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import { age, definitionOf, either, error, fixed, object, policy, rule, text, typeFields, yes, type Kind } from './internal/definition.ts';
import { snapshotGroup } from './snapshot-kinds.ts';

const snapshot = object(
  {
    ...typeFields,
    spec: object(
      {
        source: object(
          {
            persistentVolumeClaimName: { ...text, 'x-kubernetes-validations': fixed('persistentVolumeClaimName') },
            volumeSnapshotContentName: { ...text, 'x-kubernetes-validations': fixed('volumeSnapshotContentName') },
          },
          { 'x-kubernetes-validations': either('persistentVolumeClaimName', 'volumeSnapshotContentName') },
        ),
        volumeSnapshotClassName: {
          ...text,
          'x-kubernetes-validations': [rule('size(self) > 0', 'volumeSnapshotClassName must not be the empty string when set')],
        },
      },
      { required: ['source'] },
    ),
    status: object({
      boundVolumeSnapshotContentName: text,
      volumeGroupSnapshotName: text,
      creationTime: { type: 'string', format: 'date-time' },
      readyToUse: yes,
      restoreSize: {
        anyOf: [{ type: 'integer' }, { type: 'string' }],
        'x-kubernetes-int-or-string': true,
        pattern: '^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$',
      },
      error,
    }),
  },
  { required: ['spec'] },
);

const content = object(
  {
    ...typeFields,
    spec: object(
      {
        deletionPolicy: policy,
        driver: text,
        source: object(
          {
            volumeHandle: { ...text, 'x-kubernetes-validations': fixed('volumeHandle') },
            snapshotHandle: { ...text, 'x-kubernetes-validations': fixed('snapshotHandle') },
          },
          { 'x-kubernetes-validations': either('volumeHandle', 'snapshotHandle') },
        ),
        sourceVolumeMode: { ...text, 'x-kubernetes-validations': fixed('sourceVolumeMode') },
        volumeSnapshotClassName: text,
        volumeSnapshotRef: object(
          { apiVersion: text, fieldPath: text, kind: text, name: text, namespace: text, resourceVersion: text, uid: text },
          {
            'x-kubernetes-validations': [
              rule(
                'has(self.name) && has(self.__namespace__)',
                'both spec.volumeSnapshotRef.name and spec.volumeSnapshotRef.namespace must be set',
              ),
            ],
          },
        ),
      },
      { required: ['deletionPolicy', 'driver', 'source', 'volumeSnapshotRef'] },
    ),
    status: object({
      creationTime: { type: 'integer', format: 'int64' },
      readyToUse: yes,
      restoreSize: { type: 'integer', format: 'int64', minimum: 0 },
      snapshotHandle: text,
      volumeGroupSnapshotHandle: text,
      error,
    }),
  },
  { required: ['spec'] },
);

const snapshotClass = object(
  { ...typeFields, driver: text, deletionPolicy: policy, parameters: { type: 'object', additionalProperties: text } },
  { required: ['driver', 'deletionPolicy'] },
);

const kinds: readonly Omit<Kind, 'group' | 'versions' | 'approval'>[] = [
  {
    kind: 'VolumeSnapshot',
    plural: 'volumesnapshots',
    short: ['vs'],
    namespaced: true,
    status: true,
    schema: snapshot,
    columns: [
      ['ReadyToUse', 'boolean', '.status.readyToUse'],
      ['SourcePVC', 'string', '.spec.source.persistentVolumeClaimName'],
      ['SourceSnapshotContent', 'string', '.spec.source.volumeSnapshotContentName'],
      ['RestoreSize', 'string', '.status.restoreSize'],
      ['SnapshotClass', 'string', '.spec.volumeSnapshotClassName'],
      ['SnapshotContent', 'string', '.status.boundVolumeSnapshotContentName'],
      ['CreationTime', 'date', '.status.creationTime'],
      age,
    ],
  },
  {
    kind: 'VolumeSnapshotContent',
    plural: 'volumesnapshotcontents',
    short: ['vsc', 'vscs'],
    namespaced: false,
    status: true,
    schema: content,
    columns: [
      ['ReadyToUse', 'boolean', '.status.readyToUse'],
      ['RestoreSize', 'integer', '.status.restoreSize'],
      ['DeletionPolicy', 'string', '.spec.deletionPolicy'],
      ['Driver', 'string', '.spec.driver'],
      ['VolumeSnapshotClass', 'string', '.spec.volumeSnapshotClassName'],
      ['VolumeSnapshot', 'string', '.spec.volumeSnapshotRef.name'],
      ['VolumeSnapshotNamespace', 'string', '.spec.volumeSnapshotRef.namespace'],
      age,
    ],
  },
  {
    kind: 'VolumeSnapshotClass',
    plural: 'volumesnapshotclasses',
    short: ['vsclass', 'vsclasses'],
    namespaced: false,
    status: false,
    schema: snapshotClass,
    columns: [['Driver', 'string', '.driver'], ['DeletionPolicy', 'string', '.deletionPolicy'], age],
  },
];

/** The CustomResourceDefinitions of snapshots, as in Kubernetes' external-snapshotter. */
export const snapshotDefinitions: readonly CustomResourceDefinition[] = kinds.map((kind) =>
  definitionOf({ ...kind, group: snapshotGroup, versions: ['v1'], approval: '814' }),
);

/** The CustomResourceDefinition of VolumePopulator, as in Kubernetes' volume-data-source-validator. */
export const populatorDefinition: CustomResourceDefinition = {
  metadata: {
    name: 'volumepopulators.populator.storage.k8s.io',
    annotations: { 'api-approved.kubernetes.io': 'https://github.com/kubernetes/enhancements/pull/2934' },
  },
  spec: {
    group: 'populator.storage.k8s.io',
    scope: 'Cluster',
    names: { kind: 'VolumePopulator', listKind: 'VolumePopulatorList', plural: 'volumepopulators', singular: 'volumepopulator' },
    versions: [
      {
        name: 'v1beta1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: object(
            { ...typeFields, sourceKind: object({ group: text, kind: text }, { required: ['group', 'kind'] }) },
            { required: ['sourceKind'] },
          ),
        },
        additionalPrinterColumns: [{ name: 'SourceKind', type: 'string', jsonPath: '.sourceKind' }],
      },
    ],
  },
};
