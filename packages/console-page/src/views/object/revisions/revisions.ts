import type { ApiClient, KubeObject } from '../../../api/client.ts';
import { objectPath, type ApiResource } from '../../../api/resources.ts';
import type { Workload } from '../workload-kinds.ts';

/** A revision of a workload's pod template. */
export interface Revision {
  readonly number: number;
  readonly name: string;
  readonly createdAt: string | undefined;
  readonly changeCause: string;
  /** The part of the workload that the revision stores, for a comparison. */
  readonly template: unknown;
  /** The patch that restores the revision. */
  readonly rollback: { readonly contentType: string; readonly body: string };
}

const revisionAnnotation = 'deployment.kubernetes.io/revision';
const changeCauseAnnotation = 'kubernetes.io/change-cause';
const hashLabel = 'pod-template-hash';

interface ControllerRevision extends KubeObject {
  readonly revision?: number;
  readonly data?: { readonly spec?: { readonly template?: unknown } };
}

const isControlledBy = (owner: KubeObject, { metadata: { ownerReferences = [] } }: KubeObject): boolean =>
  ownerReferences.some(({ uid, controller }) => controller === true && uid === owner.metadata.uid);

/** Returns 0 without the annotation, which the controller has not written yet; NaN for a value that is no integer. */
const parseRevision = (value = '0'): number => (/^[-+]?\d+$/.test(value) ? Number(value) : NaN);

/** Returns the revision that a ReplicaSet of a Deployment stores. */
export function revisionOfReplicaSet(replicaSet: Workload): Revision {
  const { metadata, spec } = replicaSet;
  const { [hashLabel]: _hash, ...labels } = spec?.template?.metadata?.labels ?? {};
  const template = { ...spec?.template, metadata: { ...spec?.template?.metadata, labels } };
  return {
    number: parseRevision(metadata.annotations?.[revisionAnnotation]),
    name: metadata.name,
    createdAt: metadata.creationTimestamp,
    changeCause: metadata.annotations?.[changeCauseAnnotation] || (spec?.template?.metadata?.annotations?.[changeCauseAnnotation] ?? ''),
    template,
    rollback: {
      contentType: 'application/json-patch+json',
      body: JSON.stringify([{ op: 'replace', path: '/spec/template', value: template }]),
    },
  };
}

/** Returns the revision that a ControllerRevision of a StatefulSet or DaemonSet stores: a patch of the workload. */
export function revisionOfControllerRevision({ metadata, revision = 0, data = {} }: ControllerRevision): Revision {
  const { $patch: _patch, ...template } = (data.spec?.template ?? {}) as Readonly<Record<string, unknown>>;
  return {
    number: revision,
    name: metadata.name,
    createdAt: metadata.creationTimestamp,
    changeCause: metadata.annotations?.[changeCauseAnnotation] ?? '',
    template,
    rollback: { contentType: 'application/strategic-merge-patch+json', body: JSON.stringify(data) },
  };
}

/**
 * Returns the revisions among the objects that a workload controls, the newest first, with the numbers and change causes that `kubectl rollout history`
 * prints: each number once, and no ReplicaSet with an invalid number.
 */
export function revisionsOf(workload: KubeObject, objects: readonly KubeObject[]): readonly Revision[] {
  const revisions = objects
    .filter((object) => isControlledBy(workload, object))
    .map((object) =>
      workload.kind === 'Deployment'
        ? revisionOfReplicaSet(object as Workload)
        : revisionOfControllerRevision(object as ControllerRevision),
    )
    .filter(({ number }) => !Number.isNaN(number));
  return [...new Map(revisions.map((revision) => [revision.number, revision])).values()].sort((a, b) => b.number - a.number);
}

/** Restores a revision, which creates a new one with the same template. */
export const rollBack = (client: ApiClient, resource: ApiResource, workload: KubeObject, { rollback }: Revision): Promise<unknown> =>
  client.json(objectPath(resource, workload), { method: 'PATCH', ...rollback, query: { fieldManager: 'oarlock-console' } });
