import { isObject, jsonEqual } from '../json.ts';
import { parseApiVersion } from '../kinds.ts';
import type { KubeObject, ManagedFieldsEntry } from '../object.ts';
import { badRequest } from '../status.ts';
import { formatTime } from '../time.ts';
import { applyConfig } from './apply-config.ts';
import { FieldConflicts } from './conflict.ts';
import { conflictsBesides, withLastApplied } from './last-applied.ts';
import type { FieldSet } from './field-set.ts';
import type { FieldType } from './field-type.ts';
import type { ManagedKind } from './managed-kind.ts';
import { decodeManagers, encodeManagers, managerId, noManagers, type Managers } from './managers.ts';
import { typeFaults } from './typed-check.ts';
import { setsExactly } from './typed-fresh.ts';
import { unnamed, updatedManagers } from './update-managers.ts';

const nothing: KubeObject = Object.freeze({});
const beforeFirstApply = 'before-first-apply';
/** The one manager whose objects may have been applied by clients before. */
const kubectl = 'kubectl';

/**
 * Keeps `metadata.managedFields` for one way of writing one kind, as Kubernetes does (KEP-555,
 * https://kubernetes.io/docs/reference/using-api/server-side-apply). Objects are never changed; those given out share what they can.
 */
export class FieldManager {
  readonly #kind: ManagedKind;
  /** What the last new object set. */
  #made: FieldSet | undefined;

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
    if (live === undefined && managers.size === 0) return withManagers(next, this.#fresh(next, manager, formatTime(now)));
    const write = { before: live ?? nothing, after: next, literal: false };
    const after = updatedManagers(this.#kind, managers, write, manager, formatTime(now));
    return withManagers(
      next,
      after === managers || unchanged(managers, after) ? (managers === decodeManagers(kept) ? kept : given) : encodeManagers(after),
    );
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
    if (managers.size === 0 && live !== undefined)
      managers = updatedManagers(kind, managers, { before: nothing, after: before, literal: false }, beforeFirstApply, time);
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

  /** New objects are mostly made as the one before: whoever made them owns the same fields. */
  #fresh(next: KubeObject, name: string, time: string): readonly ManagedFieldsEntry[] | undefined {
    const { apiVersion, subresource } = this.#kind;
    const type = this.#kind.typeOf(apiVersion);
    const manager = { manager: name === '' ? unnamed : name, operation: 'Update', apiVersion, subresource, time } as const;
    if (this.#made !== undefined && type !== undefined && setsExactly(type, next, this.#made, this.#kind.resets(apiVersion)))
      return encodeManagers(new Map([[managerId(manager), { ...manager, set: this.#made }]]));
    const managers = updatedManagers(this.#kind, noManagers, { before: nothing, after: next, literal: false }, name, time);
    for (const { set } of managers.values()) this.#made = set;
    return encodeManagers(managers);
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
  if (!isObject(config)) throw badRequest('error decoding YAML: error unmarshaling JSON: the configuration is no object');
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

function unchanged(before: Managers, after: Managers): boolean {
  if (before.size !== after.size) return false;
  for (const [id, manager] of after) if (before.get(id) !== manager) return false;
  return true;
}

function withManagers(object: KubeObject, managedFields: readonly ManagedFieldsEntry[] | undefined): KubeObject {
  const { metadata } = object;
  if (metadata?.managedFields === managedFields) return object;
  const { managedFields: _old, ...others } = metadata ?? {};
  return { ...object, metadata: managedFields === undefined ? others : { ...others, managedFields } };
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
