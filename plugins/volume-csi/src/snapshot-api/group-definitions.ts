import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import { groupSnapshotGroup } from './group-kinds.ts';
import { age, definitionOf, either, error, fixed, object, policy, rule, text, typeFields, yes, type Kind } from './internal/definition.ts';

const strings = { type: 'array', items: text };
const integer = { type: 'integer', format: 'int64' };
const time = { type: 'string', format: 'date-time' };
const expression = object({ key: text, operator: text, values: strings }, { required: ['key', 'operator'] });
const selector = object(
  { matchExpressions: { type: 'array', items: expression }, matchLabels: { type: 'object', additionalProperties: text } },
  { 'x-kubernetes-map-type': 'atomic', 'x-kubernetes-validations': fixed('selector') },
);

const groupSnapshot = object(
  {
    ...typeFields,
    spec: object(
      {
        source: object(
          {
            selector,
            volumeGroupSnapshotContentName: { ...text, 'x-kubernetes-validations': fixed('volumeGroupSnapshotContentName') },
          },
          { 'x-kubernetes-validations': either('selector', 'volumeGroupSnapshotContentName') },
        ),
        volumeGroupSnapshotClassName: {
          ...text,
          'x-kubernetes-validations': [rule('size(self) > 0', 'volumeGroupSnapshotClassName must not be the empty string when set')],
        },
      },
      { required: ['source'] },
    ),
    status: object({ boundVolumeGroupSnapshotContentName: text, creationTime: time, readyToUse: yes, error }),
  },
  { required: ['spec'] },
);

const handles = object(
  { volumeGroupSnapshotHandle: text, volumeSnapshotHandles: strings },
  { required: ['volumeGroupSnapshotHandle', 'volumeSnapshotHandles'], 'x-kubernetes-validations': fixed('groupSnapshotHandles') },
);
const content = object(
  {
    ...typeFields,
    spec: object(
      {
        deletionPolicy: policy,
        driver: { ...text, 'x-kubernetes-validations': [rule('self == oldSelf', 'driver is immutable once set')] },
        source: object(
          { groupSnapshotHandles: handles, volumeHandles: { ...strings, 'x-kubernetes-validations': fixed('volumeHandles') } },
          { 'x-kubernetes-validations': either('volumeHandles', 'groupSnapshotHandles') },
        ),
        volumeGroupSnapshotClassName: {
          ...text,
          'x-kubernetes-validations': [rule('self == oldSelf', 'volumeGroupSnapshotClassName is immutable once set')],
        },
        volumeGroupSnapshotRef: object(
          { apiVersion: text, fieldPath: text, kind: text, name: text, namespace: text, resourceVersion: text, uid: text },
          {
            'x-kubernetes-map-type': 'atomic',
            'x-kubernetes-validations': [
              rule(
                'has(self.name) && has(self.__namespace__)',
                'both volumeGroupSnapshotRef.name and volumeGroupSnapshotRef.namespace must be set',
              ),
              rule(
                'self.name == oldSelf.name && self.__namespace__ == oldSelf.__namespace__',
                'volumeGroupSnapshotRef.name and volumeGroupSnapshotRef.namespace are immutable',
              ),
              rule('!has(oldSelf.uid) || (has(self.uid) && self.uid == oldSelf.uid)', 'volumeGroupSnapshotRef.uid is immutable once set'),
            ],
          },
        ),
      },
      { required: ['deletionPolicy', 'driver', 'source', 'volumeGroupSnapshotRef'] },
    ),
    status: object({
      creationTime: time,
      readyToUse: yes,
      volumeGroupSnapshotHandle: {
        ...text,
        'x-kubernetes-validations': [rule('self == oldSelf', 'volumeGroupSnapshotHandle is immutable once set')],
      },
      volumeSnapshotInfoList: {
        type: 'array',
        items: object({ creationTime: integer, readyToUse: yes, restoreSize: integer, snapshotHandle: text, volumeHandle: text }),
      },
      error,
    }),
  },
  { required: ['spec'] },
);

const groupClass = object(
  { ...typeFields, driver: text, deletionPolicy: policy, parameters: { type: 'object', additionalProperties: text } },
  { required: ['driver', 'deletionPolicy'] },
);

const kinds: readonly Omit<Kind, 'group' | 'versions' | 'approval'>[] = [
  {
    kind: 'VolumeGroupSnapshot',
    plural: 'volumegroupsnapshots',
    short: ['vgs'],
    namespaced: true,
    status: true,
    schema: groupSnapshot,
    columns: [
      ['ReadyToUse', 'boolean', '.status.readyToUse'],
      ['VolumeGroupSnapshotClass', 'string', '.spec.volumeGroupSnapshotClassName'],
      ['VolumeGroupSnapshotContent', 'string', '.status.boundVolumeGroupSnapshotContentName'],
      ['CreationTime', 'date', '.status.creationTime'],
      age,
    ],
  },
  {
    kind: 'VolumeGroupSnapshotContent',
    plural: 'volumegroupsnapshotcontents',
    short: ['vgsc', 'vgscs'],
    namespaced: false,
    status: true,
    schema: content,
    columns: [
      ['ReadyToUse', 'boolean', '.status.readyToUse'],
      ['DeletionPolicy', 'string', '.spec.deletionPolicy'],
      ['Driver', 'string', '.spec.driver'],
      ['VolumeGroupSnapshotClass', 'string', '.spec.volumeGroupSnapshotClassName'],
      ['VolumeGroupSnapshotNamespace', 'string', '.spec.volumeGroupSnapshotRef.namespace'],
      ['VolumeGroupSnapshot', 'string', '.spec.volumeGroupSnapshotRef.name'],
      age,
    ],
  },
  {
    kind: 'VolumeGroupSnapshotClass',
    plural: 'volumegroupsnapshotclasses',
    short: ['vgsclass', 'vgsclasses'],
    namespaced: false,
    status: false,
    schema: groupClass,
    columns: [['Driver', 'string', '.driver'], ['DeletionPolicy', 'string', '.deletionPolicy'], age],
  },
];

/** The CustomResourceDefinitions of groups of snapshots, as in Kubernetes' external-snapshotter. */
export const groupDefinitions: readonly CustomResourceDefinition[] = kinds.map((kind) =>
  definitionOf({ ...kind, group: groupSnapshotGroup, versions: ['v1', 'v1beta2'], approval: '1337' }),
);
