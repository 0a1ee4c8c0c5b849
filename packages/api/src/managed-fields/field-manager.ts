import { copyFields, withoutField } from '../json/copy-fields.ts';
import { goKind } from '../json/syntax-error.ts';
import { isObject, jsonEqual } from '../json/json.ts';
import { parseApiVersion } from '../kinds.ts';
import type { KubeObject, ManagedFieldsEntry } from '../object.ts';
import { badRequest, StatusError, statusCodes } from '../status.ts';
import { formatTime } from '../values/time.ts';
import { applyConfiguration, type Steps } from './internal/apply-configuration.ts';
import { FieldConflicts } from './internal/conflict.ts';
import { sharedSet } from './internal/fields-v1.ts';
import { conflictsExceptLastApplied, withLastApplied } from './internal/last-applied.ts';
import { emptySet, type FieldSet } from './field-set.ts';
import type { FieldType } from './field-type.ts';
import type { ManagedKind } from './managed-kind.ts';
import { decodeManagers, encodeManagers, noManagers, type Managers } from './managers.ts';
import { typeErrors } from './internal/typed-validation.ts';
import { nothingChanged } from './internal/typed-compare.ts';
import { isFieldSetOfNewObject } from './internal/typed-create.ts';
import { changedFields, Changes, updateManagers } from './internal/update-managers.ts';

const nothing: KubeObject = Object.freeze({});
const beforeFirstApply = 'before-first-apply';
/** The manager name of kubectl, which may have written the object with client-side apply before. */
const kubectl = 'kubectl';

/** An update: the current object, undefined on create, the new one, and the time in milliseconds since the Unix epoch. */
export interface TrackedUpdate {
  readonly live: KubeObject | undefined;
  readonly next: KubeObject;
  readonly manager: string;
  readonly now: number;
}
/** An apply: the current object, undefined on create, the apply configuration, and the time in milliseconds since the Unix epoch. */
export interface TrackedApply extends Omit<TrackedUpdate, 'next'> {
  readonly config: unknown;
  readonly force: boolean;
}

/** The cached result of an update. */
interface CachedUpdate {
  readonly changed: FieldSet;
  readonly removed: FieldSet;
  readonly manager: string;
  readonly time: string;
  readonly entries: readonly ManagedFieldsEntry[] | undefined;
}

/**
 * Maintains `metadata.managedFields` for one endpoint (subresource) of one kind (managedfields.FieldManager upstream, KEP-555,
 * https://kubernetes.io/docs/reference/using-api/server-side-apply). Does not change its arguments; results share unchanged parts.
 */
export class FieldManager {
  readonly #kind: ManagedKind;
  /** The cached managers of the last created object. */
  #lastCreate: CachedUpdate | undefined;
  /** The cached result of the last update, by the managedFields list of the live object. Objects with the same history share one list. */
  readonly #lastUpdates = new WeakMap<readonly ManagedFieldsEntry[], CachedUpdate>();

  constructor(kind: ManagedKind) {
    this.#kind = kind;
  }

  /**
   * Returns the object that an update stores, with its managedFields.
   * @param live the current object; undefined on create
   * @param now milliseconds since the Unix epoch
   */
  update(live: KubeObject | undefined, next: KubeObject, manager: string, now: number): KubeObject {
    const compared = this.beginUpdate({ live, next, manager, now });
    return typeof compared === 'function' ? compared() : compared;
  }

  /**
   * Does the first half of `update`, which compares the objects, and returns the second, which encodes the managers: each takes long for a large object, and the
   * caller can do other work between them. Returns the object itself if there is nothing to encode.
   */
  beginUpdate({ live, next, manager, now }: TrackedUpdate): KubeObject | (() => KubeObject) {
    const submitted = next.metadata?.managedFields;
    const stored = live?.metadata?.managedFields;
    const managers = this.#managers(submitted, stored);
    // an object without managers, for example one written before tracking existed, gets none until the first apply
    if (managers.size === 0 && live !== undefined) return withManagers(next, undefined);
    const time = formatTime(now);
    if (live === undefined && managers.size === 0) {
      const compared = this.#managersOfNewObject(next, manager, time);
      return typeof compared === 'function' ? () => withManagers(next, compared()) : withManagers(next, compared);
    }
    const changes = new Changes(this.#kind, { before: live ?? nothing, after: next, literal: false });
    const own = changes.in(this.#kind.apiVersion) ?? nothingChanged;
    const known = managers === decodeManagers(stored) ? stored : undefined;
    if (own.added.empty && own.modified.empty && own.removed.empty) return withManagers(next, known ?? encodeManagers(managers));
    const changed = changedFields(own);
    const removed = sharedSet(own.removed);
    const last = known && this.#lastUpdates.get(known);
    if (last?.changed === changed && last.removed === removed && last.manager === manager && last.time === time)
      return withManagers(next, last.entries);
    const updated = updateManagers(this.#kind, managers, changes, changed, manager, time);
    return () => {
      const entries = encodeManagers(updated);
      // an update in another version also depends on the conversion, so it is not cached
      if (
        known !== undefined &&
        changed.small &&
        removed.small &&
        [...managers.values()].every(({ apiVersion }) => apiVersion === this.#kind.apiVersion)
      )
        this.#lastUpdates.set(known, { changed, removed, manager, time, entries });
      return withManagers(next, entries);
    };
  }

  /**
   * Returns the object that an apply stores, with its managedFields.
   * @param live the current object; undefined on create
   * @throws StatusError Conflict if another manager owns a changed field and `force` is false; BadRequest if the configuration is invalid
   */
  apply(live: KubeObject | undefined, config: unknown, manager: string, force: boolean, now: number): KubeObject {
    const steps = this.applySteps({ live, config, manager, force, now });
    for (let step = steps.next(); ; step = steps.next()) if (step.done === true) return step.value;
  }

  /** Does what `apply` does in steps, each of which takes long for a large object. @throws StatusError as `apply` */
  *applySteps({ live, config, manager, force, now }: TrackedApply): Steps<KubeObject> {
    const kind = this.#kind;
    const applied = checkConfiguration(kind, kind.typeOf(kind.apiVersion), config);
    yield;
    const time = formatTime(now);
    let managers = decodeManagers(live?.metadata?.managedFields) ?? noManagers;
    yield;
    const before = live === undefined ? nothing : withManagers(live, undefined);
    if (managers.size === 0 && live !== undefined) managers = this.#beforeFirstApply(before, time);
    const attempt = (forced: boolean) => applyConfiguration(kind, before, applied, managers, manager, forced, time);
    let result: { readonly object: KubeObject; readonly managers: Managers };
    try {
      result = yield* attempt(force);
    } catch (error) {
      if (!(error instanceof FieldConflicts)) throw error;
      yield;
      const rest = manager === kubectl ? conflictsExceptLastApplied(kind, before, error) : error;
      if (rest !== undefined) throw rest.status();
      result = yield* attempt(true);
    }
    yield;
    const complete = kind.complete(result.object, now);
    const object = manager === kubectl ? withLastApplied(complete, applied) : complete;
    yield;
    return withManagers(object, encodeManagers(result.managers));
  }

  /** Returns one manager (`before-first-apply`) that owns all fields of an object without managers, for the first apply. */
  #beforeFirstApply(live: KubeObject, time: string): Managers {
    const changes = new Changes(this.#kind, { before: nothing, after: live, literal: false });
    const changed = changedFields(changes.in(this.#kind.apiVersion) ?? nothingChanged);
    return updateManagers(this.#kind, noManagers, changes, changed, beforeFirstApply, time);
  }

  /** Returns the managers of a created object. Most objects are created like the previous one, and their creator owns the same fields. */
  #managersOfNewObject(
    next: KubeObject,
    manager: string,
    time: string,
  ): readonly ManagedFieldsEntry[] | undefined | (() => readonly ManagedFieldsEntry[] | undefined) {
    const { apiVersion } = this.#kind;
    const type = this.#kind.typeOf(apiVersion);
    if (type === undefined) return undefined;
    const last = this.#lastCreate;
    const ignored = this.#kind.resetFields(apiVersion);
    const alike = last !== undefined && isFieldSetOfNewObject(type, next, last.changed, ignored);
    if (alike && last.manager === manager && last.time === time) return last.entries;
    const changes = new Changes(this.#kind, { before: nothing, after: next, literal: false });
    const changed = alike ? last.changed : changedFields(changes.in(apiVersion) ?? nothingChanged);
    const updated = updateManagers(this.#kind, noManagers, changes, changed, manager, time);
    return () => {
      const entries = encodeManagers(updated);
      if (changed.small) this.#lastCreate = { changed, removed: emptySet, manager, time, entries };
      return entries;
    };
  }

  /**
   * Returns the managers to start from. A client that omits managedFields keeps the stored managers; an empty list or a list with one empty entry
   * resets them.
   */
  #managers(submitted: unknown, stored: readonly ManagedFieldsEntry[] | undefined): Managers {
    const live = () => decodeManagers(stored) ?? noManagers;
    if (this.#kind.subresource !== '' || submitted === stored || submitted === undefined || submitted === null) return live();
    if (Array.isArray(submitted)) {
      if (submitted.length === 0 || (submitted.length === 1 && isObject(submitted[0]) && Object.keys(submitted[0]).length === 0))
        return noManagers;
      if (jsonEqual(submitted, stored)) return live();
    }
    const managers = decodeManagers(submitted);
    return managers === undefined || managers.size === 0 ? live() : managers;
  }
}

/** The group, version and kind that an apply configuration must have. */
export type ConfigKind = Pick<ManagedKind, 'group' | 'version' | 'kind' | 'apiVersion'>;

/**
 * Validates the type and the metadata of an apply configuration.
 * @throws StatusError with Kubernetes' message: BadRequest if kind or metadata are invalid, 500 without a reason if fields do not match the schema
 */
export function checkConfiguration(
  { group, version, kind, apiVersion }: ConfigKind,
  type: FieldType | undefined,
  config: unknown,
): KubeObject {
  if (!isObject(config))
    throw badRequest(
      `error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal ${goKind(config)} into Go value of type map[string]interface {}`,
    );
  const text = (name: string) => (typeof config[name] === 'string' ? config[name] : '');
  const groupVersion = parseApiVersion(text('apiVersion'));
  if (text('kind') !== kind || groupVersion.group !== group || groupVersion.version !== version)
    throw badRequest(`invalid object type: ${groupVersion.group}/${groupVersion.version}, Kind=${text('kind')}`);
  const applied = config as KubeObject;
  const metadata: unknown = applied.metadata;
  if (isObject(metadata) && metadata['managedFields'] !== undefined && metadata['managedFields'] !== null)
    throw badRequest('metadata.managedFields must be nil');
  const faults = type === undefined ? 'no corresponding type' : typeErrors(type, config);
  if (faults === undefined) return applied;
  const part = (name: string) => (isObject(metadata) && typeof metadata[name] === 'string' ? metadata[name] : '');
  const gvk = `${apiVersion.includes('/') ? '' : '/'}${apiVersion}, Kind=${kind}`;
  throw untypedError(`failed to create typed patch object (${part('namespace')}/${part('name')}; ${gvk}): ${faults}`);
}

/** Returns an error without a reason. Upstream answers 500 to errors that are not API statuses (kubernetes/kubernetes#139253). */
const untypedError = (message: string): StatusError =>
  new StatusError({ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, code: statusCodes.InternalError });

function withManagers(object: KubeObject, managedFields: readonly ManagedFieldsEntry[] | undefined): KubeObject {
  const { metadata } = object;
  if (metadata?.managedFields === managedFields) return object;
  if (managedFields !== undefined) return copyFields(object, { metadata: copyFields(metadata ?? {}, { managedFields }) });
  return copyFields(object, { metadata: withoutField(metadata ?? {}, 'managedFields') });
}

/** Returns true if two managedFields lists are equal except for their timestamps. */
export function differInTimesAlone(before: readonly ManagedFieldsEntry[] = [], after: readonly ManagedFieldsEntry[] = []): boolean {
  if (before === after || before.length === 0 || before.length !== after.length) return false;
  let times = 0;
  for (const [i, a] of before.entries()) {
    const b = after[i];
    if (a === b) continue;
    if (b === undefined || a.manager !== b.manager || a.operation !== b.operation || a.apiVersion !== b.apiVersion) return false;
    if (a.subresource !== b.subresource || !jsonEqual(a.fieldsV1, b.fieldsV1)) return false;
    if (a.time !== b.time) times++;
  }
  return times > 0;
}
