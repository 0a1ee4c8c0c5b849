import { goKind } from '../json-fault.ts';
import { isObject, jsonEqual } from '../json.ts';
import { parseApiVersion } from '../kinds.ts';
import type { KubeObject, ManagedFieldsEntry } from '../object.ts';
import { badRequest } from '../status.ts';
import { formatTime } from '../time.ts';
import { applyConfig } from './apply-config.ts';
import { FieldConflicts } from './conflict.ts';
import { sharedSet } from './fields-v1.ts';
import { conflictsBesides, withLastApplied } from './last-applied.ts';
import { emptySet, type FieldSet } from './field-set.ts';
import type { FieldType } from './field-type.ts';
import type { ManagedKind } from './managed-kind.ts';
import { decodeManagers, encodeManagers, noManagers, type Managers } from './managers.ts';
import { typeFaults } from './typed-check.ts';
import { nothingChanged } from './typed-compare.ts';
import { setsExactly } from './typed-fresh.ts';
import { changedBy, Changes, updatedManagers } from './update-managers.ts';

const nothing: KubeObject = Object.freeze({});
const beforeFirstApply = 'before-first-apply';
/** The one manager whose objects may have been applied by clients before. */
const kubectl = 'kubectl';

/** What an update came to. */
interface Outcome {
  readonly changed: FieldSet;
  readonly removed: FieldSet;
  readonly manager: string;
  readonly time: string;
  readonly entries: readonly ManagedFieldsEntry[] | undefined;
}

/**
 * Keeps `metadata.managedFields` for one way of writing one kind, as Kubernetes does (KEP-555,
 * https://kubernetes.io/docs/reference/using-api/server-side-apply). Objects are never changed; those given out share what they can.
 */
export class FieldManager {
  readonly #kind: ManagedKind;
  /** What the last new object set. */
  #made: Outcome | undefined;
  /** The last update of objects with these managers: objects that live alike share their managers. */
  readonly #outcomes = new WeakMap<readonly ManagedFieldsEntry[], Outcome>();

  constructor(kind: ManagedKind) {
    this.#kind = kind;
  }

  /**
   * The object that an update makes, with its managers.
   * @param live undefined when it is new
   * @param now milliseconds since the epoch
   */
  update(live: KubeObject | undefined, next: KubeObject, manager: string, now: number): KubeObject {
    const given = next.metadata?.managedFields;
    const kept = live?.metadata?.managedFields;
    const managers = this.#managers(given, kept);
    // once nobody is known, nobody becomes known before somebody applies
    if (managers.size === 0 && live !== undefined) return withManagers(next, undefined);
    const time = formatTime(now);
    if (live === undefined && managers.size === 0) return withManagers(next, this.#fresh(next, manager, time));
    const changes = new Changes(this.#kind, { before: live ?? nothing, after: next, literal: false });
    const own = changes.in(this.#kind.apiVersion) ?? nothingChanged;
    const known = managers === decodeManagers(kept) ? kept : undefined;
    if (own.added.empty && own.modified.empty && own.removed.empty) return withManagers(next, known ?? encodeManagers(managers));
    const changed = changedBy(own);
    const removed = sharedSet(own.removed);
    const last = known && this.#outcomes.get(known);
    if (last?.changed === changed && last.removed === removed && last.manager === manager && last.time === time)
      return withManagers(next, last.entries);
    const entries = encodeManagers(updatedManagers(this.#kind, managers, changes, changed, manager, time));
    // what changes in another version depends on more than what changes in this one
    if (
      known !== undefined &&
      changed.small &&
      removed.small &&
      [...managers.values()].every(({ apiVersion }) => apiVersion === this.#kind.apiVersion)
    )
      this.#outcomes.set(known, { changed, removed, manager, time, entries });
    return withManagers(next, entries);
  }

  /**
   * The object that an applied configuration makes, with its managers.
   * @param live undefined when there is none
   * @throws StatusError Conflict, BadRequest
   */
  apply(live: KubeObject | undefined, config: unknown, manager: string, force: boolean, now: number): KubeObject {
    const kind = this.#kind;
    const applied = checkedConfig(kind, kind.typeOf(kind.apiVersion), config);
    const time = formatTime(now);
    let managers = decodeManagers(live?.metadata?.managedFields) ?? noManagers;
    const before = live === undefined ? nothing : withManagers(live, undefined);
    if (managers.size === 0 && live !== undefined) managers = this.#everything(before, time);
    const attempt = (forced: boolean) => applyConfig(kind, before, applied, managers, manager, forced, time);
    let result: ReturnType<typeof attempt>;
    try {
      result = attempt(force);
    } catch (error) {
      if (!(error instanceof FieldConflicts)) throw error;
      const rest = manager === kubectl ? conflictsBesides(kind, before, error) : error;
      if (rest !== undefined) throw rest.status();
      result = attempt(true);
    }
    const object = kind.complete(result.object);
    return withManagers(manager === kubectl ? withLastApplied(object, applied) : object, encodeManagers(result.managers));
  }

  /** All that is there before somebody applies for the first time, as one manager's. */
  #everything(live: KubeObject, time: string): Managers {
    const changes = new Changes(this.#kind, { before: nothing, after: live, literal: false });
    const changed = changedBy(changes.in(this.#kind.apiVersion) ?? nothingChanged);
    return updatedManagers(this.#kind, noManagers, changes, changed, beforeFirstApply, time);
  }

  /** New objects are mostly made as the one before: whoever made them owns the same fields. */
  #fresh(next: KubeObject, manager: string, time: string): readonly ManagedFieldsEntry[] | undefined {
    const { apiVersion } = this.#kind;
    const type = this.#kind.typeOf(apiVersion);
    if (type === undefined) return undefined;
    const last = this.#made;
    const ignored = this.#kind.resets(apiVersion);
    const alike = last !== undefined && setsExactly(type, next, last.changed, ignored);
    if (alike && last.manager === manager && last.time === time) return last.entries;
    const changes = new Changes(this.#kind, { before: nothing, after: next, literal: false });
    const changed = alike ? last.changed : changedBy(changes.in(apiVersion) ?? nothingChanged);
    const entries = encodeManagers(updatedManagers(this.#kind, noManagers, changes, changed, manager, time));
    if (changed.small) this.#made = { changed, removed: emptySet, manager, time, entries };
    return entries;
  }

  /** Clients that know nothing of managers do not take them away; who sends an empty list or entry does. */
  #managers(given: unknown, kept: readonly ManagedFieldsEntry[] | undefined): Managers {
    const live = () => decodeManagers(kept) ?? noManagers;
    if (this.#kind.subresource !== '' || given === kept || given === undefined || given === null) return live();
    if (Array.isArray(given)) {
      if (given.length === 0 || (given.length === 1 && isObject(given[0]) && Object.keys(given[0]).length === 0)) return noManagers;
      if (jsonEqual(given, kept)) return live();
    }
    const managers = decodeManagers(given);
    return managers === undefined || managers.size === 0 ? live() : managers;
  }
}

/** What a configuration has to be. */
export type ConfigKind = Pick<ManagedKind, 'group' | 'version' | 'kind' | 'apiVersion'>;

/** A configuration of a kind, as far as its type goes. @throws StatusError BadRequest with the message that Kubernetes gives */
export function checkedConfig({ group, version, kind, apiVersion }: ConfigKind, type: FieldType | undefined, config: unknown): KubeObject {
  if (!isObject(config))
    throw badRequest(
      `error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal ${goKind(config)} into Go value of type map[string]interface {}`,
    );
  const text = (name: string) => (typeof config[name] === 'string' ? config[name] : '');
  const given = parseApiVersion(text('apiVersion'));
  if (text('kind') !== kind || given.group !== group || given.version !== version)
    throw badRequest(`invalid object type: ${given.group}/${given.version}, Kind=${text('kind')}`);
  const applied = config as KubeObject;
  const metadata: unknown = applied.metadata;
  if (isObject(metadata) && metadata['managedFields'] !== undefined && metadata['managedFields'] !== null)
    throw badRequest('metadata.managedFields must be nil');
  const faults = type === undefined ? 'no corresponding type' : typeFaults(type, config);
  if (faults === undefined) return applied;
  const part = (name: string) => (isObject(metadata) && typeof metadata[name] === 'string' ? metadata[name] : '');
  throw badRequest(
    `failed to create typed patch object (${part('namespace')}/${part('name')}; ${apiVersion.includes('/') ? '' : '/'}${apiVersion}, Kind=${kind}): ${faults}`,
  );
}

function withManagers(object: KubeObject, managedFields: readonly ManagedFieldsEntry[] | undefined): KubeObject {
  const { metadata } = object;
  if (metadata?.managedFields === managedFields) return object;
  if (managedFields !== undefined) return { ...object, metadata: { ...metadata, managedFields } };
  const { managedFields: _old, ...others } = metadata ?? {};
  return { ...object, metadata: others };
}

/** Whether two lists of managers say the same of everybody, but for when. */
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
