import { isDeepStrictEqual } from 'node:util';
import { kindOfResource } from '@oarlock/api/kinds';
import type { KubeObject, ObjectMeta } from '@oarlock/api/object';
import { groupResource, type Resource } from '@oarlock/api/resource';
import { failure } from '@oarlock/api/status';

/** A writable object of any kind. */
export type Draft = { apiVersion?: string; kind?: string; metadata: Writable<ObjectMeta>; spec?: unknown; status?: unknown } & Record<
  string,
  unknown
>;
type Writable<T> = { -readonly [K in keyof T]: T[K] };

const withoutGeneration = new Set(['namespaces', 'nodes', 'services', 'persistentvolumes', 'persistentvolumeclaims', 'resourcequotas']);

export function hasStatus(resource: Resource): boolean {
  return kindOfResource(resource)?.subresources.some(({ name }) => name === 'status') ?? true;
}

/** Sets the fields that the server determines on create, except the fields of the object's identity. */
export function prepareCreate(resource: Resource, draft: Draft): void {
  const name = groupResource(resource);
  // nodes are registered together with their status
  if (hasStatus(resource) && name !== 'nodes') delete draft.status;
  if (name === 'pods') draft.status = { phase: 'Pending' };
  if (name === 'namespaces') {
    draft.spec = { ...(draft.spec as object | undefined), finalizers: ['kubernetes'] };
    draft.status = { phase: 'Active' };
  }
  if (draft.spec !== undefined && hasStatus(resource) && !withoutGeneration.has(name)) draft.metadata.generation = 1;
}

/** The subresource that is written, the draft, and the current object. */
export interface MemoryUpdate {
  readonly subresource: string;
  readonly draft: Draft;
  readonly current: KubeObject;
}

/** Merges into `draft`, the next version of `current`, the fields of `current` that a request to `subresource` must not change. */
export function prepareUpdate(resource: Resource, { subresource, draft, current }: MemoryUpdate): void {
  const now = current as Draft;
  const { labels, annotations, managedFields = now.metadata.managedFields } = draft.metadata;
  if (managedFields !== undefined) draft.metadata.managedFields = managedFields;
  switch (subresource) {
    case 'status':
      for (const key of Object.keys(draft)) if (key !== 'status') delete draft[key];
      for (const key of Object.keys(now)) if (key !== 'status') draft[key] = now[key];
      draft.metadata = {
        ...now.metadata,
        ...(labels && { labels }),
        ...(annotations && { annotations }),
        ...(managedFields && { managedFields }),
      };
      return;
    case 'finalize':
      draft.spec = {
        ...(now.spec as object | undefined),
        finalizers: (draft.spec as { finalizers?: unknown } | undefined)?.finalizers ?? [],
      };
      draft.status = now.status;
      keepMetadata(draft, now);
      return;
    default:
      if (hasStatus(resource)) {
        if (now.status === undefined) delete draft.status;
        else draft.status = now.status;
      }
      if (groupResource(resource) === 'namespaces') draft.spec = now.spec;
      keepMetadata(draft, now);
      if (now.metadata.generation !== undefined && changedBeyondStatus(draft, now)) draft.metadata.generation = now.metadata.generation + 1;
  }
}

function keepMetadata(draft: Draft, now: Draft): void {
  const { uid, creationTimestamp, generation, deletionTimestamp, deletionGracePeriodSeconds, generateName } = now.metadata;
  const {
    uid: _1,
    creationTimestamp: _2,
    generation: _3,
    deletionTimestamp: _4,
    deletionGracePeriodSeconds: _5,
    selfLink: _6,
    ...sent
  } = draft.metadata;
  draft.metadata = {
    ...sent,
    ...(generateName !== undefined && { generateName }),
    ...(uid !== undefined && { uid }),
    ...(creationTimestamp !== undefined && { creationTimestamp }),
    ...(generation !== undefined && { generation }),
    ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    ...(deletionGracePeriodSeconds !== undefined && { deletionGracePeriodSeconds }),
  };
  const known = new Set(now.metadata.finalizers);
  const added = deletionTimestamp === undefined ? [] : (draft.metadata.finalizers ?? []).filter((finalizer) => !known.has(finalizer));
  if (added.length > 0) {
    throw failure(
      'Invalid',
      `${now.kind} "${now.metadata.name}" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers ${JSON.stringify(added)}`,
    );
  }
}

function changedBeyondStatus(draft: Draft, now: Draft): boolean {
  const rest = ({ metadata: _m, status: _s, apiVersion: _a, kind: _k, ...other }: Draft) => other;
  return !isDeepStrictEqual(rest(draft), rest(now));
}

/** Returns true if `draft` and `now` differ only in resourceVersion, so that the write changes nothing. */
export function sameContent(draft: Draft, now: KubeObject): boolean {
  const bare = (object: KubeObject) => ({ ...object, metadata: { ...object.metadata, resourceVersion: '' } });
  return isDeepStrictEqual(bare(draft), bare(now));
}

export interface DeleteBody {
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: string;
  readonly orphanDependents?: boolean;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly dryRun?: readonly string[];
}

/** Returns the grace period of a deletion in seconds; 0 for objects other than pods, and for pods that are unscheduled or terminal. */
export function gracePeriod(resource: Resource, object: KubeObject, requested: number | undefined): number {
  if (groupResource(resource) !== 'pods') return 0;
  const { spec, status } = object as { spec?: { nodeName?: string; terminationGracePeriodSeconds?: number }; status?: { phase?: string } };
  if (!spec?.nodeName || status?.phase === 'Succeeded' || status?.phase === 'Failed') return 0;
  return requested ?? spec.terminationGracePeriodSeconds ?? 30;
}

/** Returns the finalizers after a deletion with a propagation policy. */
export function propagationFinalizers(
  finalizers: readonly string[],
  { propagationPolicy, orphanDependents }: DeleteBody,
): readonly string[] {
  const rest = finalizers.filter((finalizer) => finalizer !== 'orphan' && finalizer !== 'foregroundDeletion');
  if (propagationPolicy === 'Orphan' || orphanDependents === true) return [...rest, 'orphan'];
  if (propagationPolicy === 'Foreground') return [...rest, 'foregroundDeletion'];
  return propagationPolicy === 'Background' || orphanDependents === false ? rest : finalizers;
}

export function hasPendingDeletion(object: KubeObject): boolean {
  const { metadata, spec } = object as Draft;
  const inSpec = object.kind === 'Namespace' ? ((spec as { finalizers?: readonly string[] } | undefined)?.finalizers ?? []) : [];
  return (metadata.finalizers ?? []).length > 0 || inSpec.length > 0;
}
