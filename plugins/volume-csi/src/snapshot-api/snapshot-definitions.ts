import { customResourceDefinitions } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { Client, Informers } from '@oarlock/spi/client';
import { snapshotGroup } from './snapshot-kinds.ts';

type Schema = Readonly<Record<string, unknown>>;

const text = { type: 'string' };
const yes = { type: 'boolean' };
const object = (properties: Schema, more: Schema = {}): Schema => ({ type: 'object', properties, ...more });
const rule = (check: string, message: string) => ({ rule: check, message });
const error = object({ message: text, time: { type: 'string', format: 'date-time' } });
const policy = { type: 'string', enum: ['Delete', 'Retain'] };
const typeFields = { apiVersion: text, kind: text, metadata: { type: 'object' } };
const either = (one: string, other: string) => [
  rule(`has(self.${one}) != has(self.${other})`, `exactly one of ${one} and ${other} must be set`),
  rule(`!has(oldSelf.${one}) || has(self.${one})`, `${one} is required once set`),
  rule(`!has(oldSelf.${other}) || has(self.${other})`, `${other} is required once set`),
];
const fixed = (what: string) => [rule('self == oldSelf', `${what} is immutable`)];

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
      error,
    }),
  },
  { required: ['spec'] },
);

const snapshotClass = object(
  { ...typeFields, driver: text, deletionPolicy: policy, parameters: { type: 'object', additionalProperties: text } },
  { required: ['driver', 'deletionPolicy'] },
);

interface Kind {
  readonly kind: string;
  readonly plural: string;
  readonly short: readonly string[];
  readonly namespaced: boolean;
  readonly status: boolean;
  readonly schema: Schema;
  readonly columns: readonly (readonly [name: string, type: string, path: string])[];
}
const age = ['Age', 'date', '.metadata.creationTimestamp'] as const;
const kinds: readonly Kind[] = [
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
export const snapshotDefinitions: readonly CustomResourceDefinition[] = kinds.map(
  ({ kind, plural, short, namespaced, status, schema, columns }) => ({
    metadata: {
      name: `${plural}.${snapshotGroup}`,
      // the API server rejects CRDs in groups of k8s.io without this annotation
      annotations: { 'api-approved.kubernetes.io': 'https://github.com/kubernetes-csi/external-snapshotter/pull/814' },
    },
    spec: {
      group: snapshotGroup,
      scope: namespaced ? 'Namespaced' : 'Cluster',
      names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase(), shortNames: short },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: { openAPIV3Schema: schema },
          ...(status && { subresources: { status: {} } }),
          additionalPrinterColumns: columns.map(([name, type, jsonPath]) => ({ name, type, jsonPath })),
        },
      ],
    },
  }),
);

/** The CustomResourceDefinition of VolumePopulator, as in Kubernetes' volume-data-source-validator. */
const populatorDefinition: CustomResourceDefinition = {
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

/**
 * Creates the snapshot CustomResourceDefinitions and waits until they are served. Existing ones are not changed; on a node that may not create them,
 * only waits.
 */
export async function defineSnapshots(client: Client, informers: Informers, signal: AbortSignal): Promise<void> {
  for (const definition of [...snapshotDefinitions, populatorDefinition])
    await client.create(customResourceDefinitions, definition, { signal }).catch((error: unknown) => {
      if (!isStatus(error, 'AlreadyExists', 'Forbidden')) throw error;
    });
  const waited = new Set(snapshotDefinitions.map(({ metadata }) => metadata?.name ?? ''));
  const informer = informers.forResource(customResourceDefinitions);
  await new Promise<void>((resolve, reject) => {
    let off: (() => void) | undefined;
    const abort = () => {
      off?.();
      reject(signal.reason as Error);
    };
    const see = ({ metadata, status }: CustomResourceDefinition) => {
      const is = status?.conditions?.some(({ type, status: now }) => type === 'Established' && now === 'True') === true;
      if (!is || !waited.delete(metadata?.name ?? '') || waited.size > 0) return;
      signal.removeEventListener('abort', abort);
      off?.();
      resolve();
    };
    signal.addEventListener('abort', abort, { once: true });
    off = informer.addEventHandler({ onAdd: see, onUpdate: see });
    if (waited.size === 0) off();
  });
}
