import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import type { DaemonSetSpec, StatefulSetSpec } from '@oarlock/api/types/apps-v1';
import type { Job, JobSpec } from '@oarlock/api/types/batch-v1';
import type { ReplicaSet } from '@oarlock/api/types/apps-v1';
import { fieldOf, specOf, withMetadata, withFields, type Strategy } from '../strategy.ts';

const templateGeneration = 'deprecated.daemonset.template.generation';
const replicas = (object: KubeObject) => String((object as ReplicaSet).status?.replicas ?? 0);

export const deployments: Strategy = {
  // annotation changes count: rollbacks are recorded in annotations
  generation: (object, old) =>
    !jsonEqual(fieldOf(object, 'spec'), fieldOf(old, 'spec')) ||
    !jsonEqual(object.metadata?.annotations ?? {}, old.metadata?.annotations ?? {}),
  subresources: {
    status: {
      prepareForUpdate: (object, old) => withMetadata(withFields(object, { spec: fieldOf(old, 'spec') }), { labels: old.metadata?.labels }),
    },
  },
};

export const replicaSets: Strategy = { generation: true, fields: { 'status.replicas': replicas } };
export const replicationControllers: Strategy = {
  generation: true,
  defaultGarbageCollectionPolicy: 'orphan',
  fields: { 'status.replicas': replicas },
};

export const daemonSets: Strategy = {
  generation: true,
  prepareForCreate: (object) =>
    withMetadata(object, {
      annotations: { ...object.metadata?.annotations, [templateGeneration]: object.metadata?.annotations?.[templateGeneration] ?? '1' },
    }),
  prepareForUpdate(object, old) {
    const before = Number(old.metadata?.annotations?.[templateGeneration] ?? '0');
    const changed = !jsonEqual(specOf<DaemonSetSpec>(object).template, specOf<DaemonSetSpec>(old).template);
    return withMetadata(object, {
      annotations: { ...object.metadata?.annotations, [templateGeneration]: String(before + (changed ? 1 : 0)) },
    });
  },
};

/**
 * Returns a StatefulSet without `maxUnavailable`, unless the stored object has it: the feature gate MaxUnavailableStatefulSet (KEP-961) is off in
 * 1.36, so that the API server drops the field.
 */
function withoutMaxUnavailable(object: KubeObject, old?: KubeObject): KubeObject {
  const spec = specOf<StatefulSetSpec>(object);
  const rollingUpdate = spec.updateStrategy?.rollingUpdate;
  if (rollingUpdate?.maxUnavailable === undefined) return object;
  if (old !== undefined && specOf<StatefulSetSpec>(old).updateStrategy?.rollingUpdate?.maxUnavailable !== undefined) return object;
  const { maxUnavailable: _dropped, ...rest } = rollingUpdate;
  return withFields(object, { spec: { ...spec, updateStrategy: { ...spec.updateStrategy, rollingUpdate: rest } } });
}

export const statefulSets: Strategy = {
  generation: true,
  prepareForCreate: (object) => withoutMaxUnavailable(object),
  prepareForUpdate: (object, old) => withoutMaxUnavailable(object, old),
};

const jobUid = 'batch.kubernetes.io/controller-uid';
const jobName = 'batch.kubernetes.io/job-name';

/**
 * Returns a Job with the generated labels and selector, which match the uid of the Job, unless manualSelector is set. Values that the client set stay,
 * and validation rejects them if they differ.
 */
function withJobSelector(object: KubeObject): KubeObject {
  const spec = specOf<JobSpec>(object) as JobSpec;
  if (spec.manualSelector === true) return object;
  const { uid = '', name = '' } = object.metadata ?? {};
  const labels = { 'controller-uid': uid, [jobUid]: uid, 'job-name': name, [jobName]: name, ...spec.template?.metadata?.labels };
  // upstream's defaulting copies the template's labels to a Job without labels
  const withLabels = Object.keys(object.metadata?.labels ?? {}).length === 0 ? withMetadata(object, { labels }) : object;
  return withFields(withLabels, {
    spec: {
      ...spec,
      selector: { ...spec.selector, matchLabels: { [jobUid]: uid, ...spec.selector?.matchLabels } },
      template: { ...spec.template, metadata: { ...spec.template?.metadata, labels } },
    },
  });
}

export const jobs: Strategy = {
  generation: true,
  defaultGarbageCollectionPolicy: 'orphan',
  deleteWarning:
    'child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning',
  fields: { 'status.successful': (object) => String((object as Job).status?.succeeded ?? 0) },
  prepareForCreate: withJobSelector,
};

export const podTemplates: Strategy = {
  generation: (object, old) => !jsonEqual(fieldOf(object, 'template'), fieldOf(old, 'template')),
  allowCreateOnUpdate: true,
  returnsDeletedObject: true,
};
