import type { FieldError } from '@oarlock/api/field-error';
import type { KubeObject } from '@oarlock/api/object';
import type { Identity } from '@oarlock/spi/authn';
import type { Reservation } from '../object-store.ts';
import type { FieldReaders } from '../watch-cache/selection.ts';

/** Who writes, and when. */
export interface StrategyContext {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly identity: Identity;
  readonly dryRun: boolean;
  /** Keys that a commit of this request found taken. */
  readonly taken: Set<string>;
  warn(message: string): void;
}

/** What one way of updating a kind lets through. Objects are frozen or shared: a changed copy is returned. */
export interface UpdateRules {
  prepare(object: KubeObject, old: KubeObject, context: StrategyContext): KubeObject;
  /** In place of the kind's own update validation. */
  validate?(object: KubeObject, old: KubeObject, context: StrategyContext): readonly FieldError[];
}

/** An object with what has to be written with it, such as its address. */
export interface Reserved {
  readonly object: KubeObject;
  readonly reservation: Reservation | undefined;
}

/**
 * The rules of one kind, beyond what all kinds have in common. Everything is optional: a kind without an entry is served by the generic
 * rules (status is what its subresource says, generation counts where upstream counts it).
 */
export interface Strategy {
  /** Fields that selectors may name, besides the name and namespace. */
  readonly fields?: FieldReaders;
  /** The field by which objects and watchers are found without asking the others. */
  readonly indexField?: string;
  /** PUT makes what is not there. */
  readonly createOnUpdate?: boolean;
  /** PUT without a resourceVersion overwrites whatever is there; true unless said otherwise. */
  readonly unconditionalUpdate?: boolean;
  /** DELETE answers with the object rather than a Status. */
  readonly returnsDeleted?: boolean;
  /** What becomes of dependents when nobody says: deleted in the background unless said otherwise. */
  readonly dependents?: 'background' | 'orphan' | 'unsupported';
  readonly ttlSeconds?: number;
  /** Counts changes of the spec; `changed` says what counts, where that is not the spec alone. */
  readonly generation?: boolean | ((object: KubeObject, old: KubeObject) => boolean);
  /** Status that clients send on create stays. */
  readonly keepsStatus?: boolean;
  create?(object: KubeObject, context: StrategyContext): KubeObject;
  update?(object: KubeObject, old: KubeObject, context: StrategyContext): KubeObject;
  /** By subresource; `status` has generic rules where there are none here. */
  readonly subresources?: Readonly<Record<string, UpdateRules>>;
  /** Besides the validation of @oarlock/api. */
  validate?(object: KubeObject, context: StrategyContext): readonly FieldError[];
  validateUpdate?(object: KubeObject, old: KubeObject, context: StrategyContext): readonly FieldError[];
  /** The grace that an object gets; only kinds that are deleted gracefully have this. */
  gracePeriod?(object: KubeObject, requested: number | undefined): number;
  /** Finalizers of its own kind hold the object although `metadata.finalizers` is empty. */
  held?(object: KubeObject): boolean;
  /** What else changes when deletion begins. */
  deleting?(object: KubeObject): KubeObject;
  /** Takes what an object needs exclusively, and gives back what it does not need any more; `object` is undefined when it goes. */
  reserve?(object: KubeObject | undefined, old: KubeObject | undefined, context: StrategyContext): Reserved | Promise<Reserved>;
}

type Fields = Readonly<Record<string, unknown>>;

/** A member of an object whose kind is not known here. */
export function part(object: KubeObject | undefined, name: string): unknown {
  return (object as Fields | undefined)?.[name];
}
export function specOf<T = Fields>(object: KubeObject | undefined): Partial<T> {
  return (part(object, 'spec') ?? {}) as Partial<T>;
}
export function statusOf<T = Fields>(object: KubeObject | undefined): Partial<T> {
  return (part(object, 'status') ?? {}) as Partial<T>;
}

/** The object with members replaced; one that becomes undefined is left out. */
export function withParts(object: KubeObject, parts: Fields): KubeObject {
  return replaced(object as Fields, parts) as KubeObject;
}

export function withMeta(object: KubeObject, parts: Fields): KubeObject {
  return { ...object, metadata: replaced((object.metadata ?? {}) as Fields, parts) };
}

/** A copy that nothing was deleted from: what V8 keeps as a table is slow to read and to copy. */
function replaced(fields: Fields, parts: Fields): Record<string, unknown> {
  let leaves = false;
  for (const name in parts) leaves ||= parts[name] === undefined;
  if (!leaves) return { ...fields, ...parts };
  const result: Record<string, unknown> = {};
  for (const name in fields)
    if (!(name in parts)) result[name] = fields[name];
    else if (parts[name] !== undefined) result[name] = parts[name];
  for (const name in parts) if (parts[name] !== undefined && !Object.hasOwn(fields, name)) result[name] = parts[name];
  return result;
}
