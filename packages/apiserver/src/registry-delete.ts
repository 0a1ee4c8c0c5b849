import type { KubeObject } from '@oarlock/api/object';
import { conflict, isStatus, notFound } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/time';
import type { Call } from './call.ts';
import type { Machinery } from './machinery.ts';
import type { Decision } from './object-store.ts';
import { strategyContext } from './registry-create.ts';
import { shown } from './registry-read.ts';
import { deleteOptions, type DeleteOptions } from './request-options.ts';
import type { Encoded, PipelineResponse } from './response.ts';
import { keyOf, show, type ServedKind } from './served-kind.ts';
import { markDeleting } from './strategy/generic.ts';
import { withMeta, type Strategy } from './strategy/strategy.ts';
import { View, type Item } from './watch-cache/item.ts';

const orphan = 'orphan';
const foreground = 'foregroundDeletion';
/** So many objects of a collection are deleted at a time. */
const parallel = 16;

export interface Removed {
  /** The object as it was left. */
  readonly item: Encoded;
  readonly deleted: boolean;
}

/** DELETE of an object. */
export async function remove(machinery: Machinery, kind: ServedKind, call: Call): Promise<PipelineResponse> {
  const options = deleteOptions(call.request);
  call.dryRun = options.dryRun;
  const { item, deleted } = await removeObject(machinery, kind, call, call.request.name, options);
  const code = !deleted && options.orphanDependents === false ? 202 : 200;
  return {
    kind: 'object',
    code,
    item: deleted && kind.strategy.returnsDeleted !== true ? success(kind, item) : item,
    warnings: call.warnings,
  };
}

/** DELETE of a collection: of what a list would find. */
export async function removeCollection(machinery: Machinery, kind: ServedKind, call: Call): Promise<PipelineResponse> {
  const options = deleteOptions(call.request);
  call.dryRun = options.dryRun;
  const { items, revision } = await machinery.reader.find(kind, call.request);
  const rest = items[Symbol.iterator]();
  const worker = async () => {
    for (const item of rest) {
      call.request.signal?.throwIfAborted();
      try {
        await removeObject(machinery, kind, call, item.object.metadata?.name ?? '', options, item.object.metadata?.namespace ?? '');
      } catch (error) {
        // somebody else was faster
        if (!isStatus(error, 'NotFound')) throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(parallel, items.length) }, worker));
  return {
    kind: 'list',
    resource: kind.resource,
    items: await shown(kind, items, call.request.signal),
    metadata: { resourceVersion: String(revision) },
    warnings: call.warnings,
  };
}

/** Deletes an object, or begins to where something holds it: finalizers, its grace period, or dependents that go first. */
export async function removeObject(
  machinery: Machinery,
  kind: ServedKind,
  call: Call,
  name: string,
  options: DeleteOptions,
  namespace = call.request.namespace,
): Promise<Removed> {
  const { admission, objects } = machinery;
  const key = keyOf(kind, namespace, name);
  let last: KubeObject | undefined;
  const decide = async (current: Item | undefined): Promise<Decision> => {
    if (current === undefined) throw notFound(kind.resource, name);
    checkPreconditions(kind, current, options);
    const old = (await show(kind, current, call.request)).object;
    await admission.validate(call, {
      operation: 'DELETE',
      resource: kind.resource,
      object: undefined,
      old,
      options: { ...options, kind: 'DeleteOptions', apiVersion: 'meta.k8s.io/v1' },
      name,
    });
    const step = deletionOf(kind.strategy, current.object, options, call.now);
    last = step.object;
    if (step.action === 'keep') return { action: 'keep' };
    if (step.action === 'put') return { action: 'put', object: step.object };
    const released = kind.strategy.reserve?.(undefined, current.object, strategyContext(call));
    return { action: 'delete', reservation: (released instanceof Promise ? await released : released)?.reservation };
  };
  if (call.dryRun) {
    const current = await objects.read(kind.store, key);
    const { action } = await decide(current);
    return { item: view(kind, last ?? {}, current?.revision ?? 0), deleted: action === 'delete' };
  }
  const outcome = await objects.change(kind.store, key, call, decide);
  if (outcome === undefined) throw notFound(kind.resource, name);
  const { item, deleted } = outcome;
  if (deleted) return { item: view(kind, last ?? item.object, item.revision), deleted };
  return { item: await show(kind, item, call.request), deleted };
}

function view({ conversion }: ServedKind, object: KubeObject, revision: number): View {
  const at = withMeta(object, { resourceVersion: String(revision) });
  return new View(conversion?.fromStored(at) ?? at, revision);
}

function checkPreconditions(
  { resource, gvk }: ServedKind,
  { object, revision }: Item,
  { preconditions: { uid, resourceVersion } }: DeleteOptions,
): void {
  const { name = '', uid: own = '' } = object.metadata ?? {};
  const named = { group: gvk.group, resource: gvk.kind };
  if (uid !== undefined && uid !== own)
    throw conflict(
      named,
      name,
      `the UID in the precondition (${uid}) does not match the UID in record (${own}). The object might have been deleted and then recreated`,
    );
  if (resourceVersion !== undefined && resourceVersion !== String(revision))
    throw conflict(
      resource.group === '' ? named : { ...named },
      name,
      `the ResourceVersion in the precondition (${resourceVersion}) does not match the ResourceVersion in record (${revision}). The object might have been modified`,
    );
}

interface Step {
  readonly action: 'put' | 'delete' | 'keep';
  readonly object: KubeObject;
}

/** What a DELETE does to an object as it stands. */
export function deletionOf(strategy: Strategy, current: KubeObject, options: DeleteOptions, now: number): Step {
  const { deletionTimestamp, deletionGracePeriodSeconds: grace } = current.metadata ?? {};
  let object = current;
  let graceful = false;
  let period = 0;
  if (strategy.gracePeriod !== undefined) {
    if (deletionTimestamp === undefined) {
      period = strategy.gracePeriod(current, options.gracePeriodSeconds);
      object = markDeleting(current, formatTime(now + period * 1000), period);
      graceful = true;
    } else if ((grace ?? 0) > 0) {
      // it may only become shorter
      const asked = options.gracePeriodSeconds;
      if (asked === undefined || asked >= (grace ?? 0)) return { action: 'keep', object: current };
      period = asked;
      const began = (parseTime(deletionTimestamp) ?? now) - (grace ?? 0) * 1000;
      object = markDeleting(current, formatTime(began + asked * 1000), asked);
      graceful = true;
    }
  }
  object = withGarbageFinalizers(strategy, object, options);
  if (strategy.held?.(object) === true) {
    if (deletionTimestamp !== undefined) return { action: 'keep', object: current };
    return { action: 'put', object: strategy.deleting?.(markDeleting(object, formatTime(now), undefined)) ?? object };
  }
  if ((object.metadata?.finalizers ?? []).length > 0) {
    if (graceful) return { action: 'put', object };
    const at = deletionTimestamp !== undefined && (parseTime(deletionTimestamp) ?? 0) <= now ? deletionTimestamp : formatTime(now);
    return { action: 'put', object: markDeleting(object, at, 0) };
  }
  return graceful && period > 0 ? { action: 'put', object } : { action: 'delete', object };
}

/** Dependents are orphaned, or go first: their finalizers say so to the garbage collector. */
function withGarbageFinalizers(
  { dependents = 'background' }: Strategy,
  object: KubeObject,
  { orphanDependents, propagationPolicy }: DeleteOptions,
): KubeObject {
  const before = object.metadata?.finalizers ?? [];
  if (dependents === 'unsupported') return object;
  const asked =
    orphanDependents !== undefined
      ? orphanDependents
        ? orphan
        : undefined
      : propagationPolicy === 'Orphan'
        ? orphan
        : propagationPolicy === 'Foreground'
          ? foreground
          : propagationPolicy === 'Background'
            ? undefined
            : (before.find((name) => name === orphan || name === foreground) ?? (dependents === 'orphan' ? orphan : undefined));
  const kept = before.filter((name) => name !== orphan && name !== foreground);
  const finalizers = asked === undefined ? kept : [...kept, asked];
  if (finalizers.length === before.length && finalizers.every((name) => before.includes(name))) return object;
  return withMeta(object, { finalizers: finalizers.length === 0 ? undefined : finalizers });
}

function success({ resource }: ServedKind, { object, revision }: Encoded): View {
  const { name = '', uid = '' } = object.metadata ?? {};
  return new View(
    {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      ...{ status: 'Success', details: { name, ...(resource.group !== '' && { group: resource.group }), kind: resource.resource, uid } },
    } as KubeObject,
    revision,
  );
}
