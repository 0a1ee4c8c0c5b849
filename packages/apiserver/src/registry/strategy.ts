import { copyFields } from '@oarlock/api/json/copy-fields';
import type { FieldError } from '@oarlock/api/field/field-error';
import type { KubeObject } from '@oarlock/api/object';
import type { Identity } from '@oarlock/spi/authn';
import type { Precondition, Write } from '@oarlock/spi/storage';
import type { FieldReaders } from '../watch-cache/selection.ts';

/** The context of the request that a strategy runs for. */
export interface StrategyContext {
  /** The time of the request in milliseconds since the Unix epoch. */
  readonly now: number;
  readonly identity: Identity;
  /** The IP address of the client; absent if the request is made in this process. */
  readonly sourceAddress?: string;
  readonly dryRun: boolean;
  /** Storage keys of allocations that an earlier commit attempt of this request found taken. */
  readonly takenReservations: Set<string>;
  warn(message: string): void;
}

/** The update rules of a subresource. Objects are frozen or shared: implementations return a changed copy. */
export interface SubresourceStrategy {
  prepareForUpdate(object: KubeObject, old: KubeObject, context: StrategyContext): KubeObject;
  /** Validates an update through the subresource. If defined, it replaces the update validation of the kind. */
  validate?(object: KubeObject, old: KubeObject, context: StrategyContext): readonly FieldError[];
}

/**
 * Writes that are committed together with an object, such as the IPAddress of a Service (upstream's transactional allocation of BeginCreate
 * and BeginUpdate).
 */
export interface Allocation {
  readonly writes: readonly Write[];
  readonly expect: readonly Precondition[];
  /** Called if the precondition on `key` failed, before the write is decided again. `present` is true if the key exists. */
  onConflict(key: string, present: boolean): void;
}

/** An object and the writes that must be committed with it. */
export interface AllocatedObject {
  readonly object: KubeObject;
  readonly reservation: Allocation | undefined;
}

/**
 * The rules of one kind (RESTCreateStrategy, RESTUpdateStrategy and RESTDeleteStrategy upstream). A kind without a strategy is served by
 * the generic rules: only the status subresource changes the status, and the generation is incremented as upstream does.
 */
export interface Strategy {
  /** The fields that field selectors may name, besides metadata.name and metadata.namespace. */
  readonly fields?: FieldReaders;
  /** The name of the field by which objects and watchers are indexed. */
  readonly indexField?: string;
  /** True if PUT creates an object that does not exist. */
  readonly allowCreateOnUpdate?: boolean;
  /** True (the default) if PUT without a resourceVersion overwrites the current object. */
  readonly allowUnconditionalUpdate?: boolean;
  /** Returns the reason why a DELETE of the name is forbidden. Deletions of collections are not restricted, as upstream. */
  deletionDenial?(name: string): string | undefined;
  /** True if DELETE returns the object instead of a Status. */
  readonly returnsDeletedObject?: boolean;
  /** The effect of a deletion on dependents if the request has no propagationPolicy; `background` by default. */
  readonly defaultGarbageCollectionPolicy?: 'background' | 'orphan' | 'unsupported';
  /** The warning about a deletion without a propagation policy. */
  readonly deleteWarning?: string;
  readonly ttlSeconds?: number;
  /**
   * Whether a change of the spec increments `metadata.generation`. A function returns true if the update increments the generation, for
   * kinds in which other fields count.
   */
  readonly generation?: boolean | ((object: KubeObject, old: KubeObject) => boolean);
  /** True if the status that clients send on create is kept. */
  readonly keepsStatusOnCreate?: boolean;
  prepareForCreate?(object: KubeObject, context: StrategyContext): KubeObject;
  prepareForUpdate?(object: KubeObject, old: KubeObject, context: StrategyContext): KubeObject;
  /** The update rules of subresources, by name. A status subresource without an entry has the generic rules. */
  readonly subresources?: Readonly<Record<string, SubresourceStrategy>>;
  /**
   * Validates a new object with rules that this kind needs in addition to the validation of @oarlock/api. Returns the field errors; empty
   * if the object is valid.
   */
  validate?(object: KubeObject, context: StrategyContext): readonly FieldError[];
  validateUpdate?(object: KubeObject, old: KubeObject, context: StrategyContext): readonly FieldError[];
  /** Returns the warnings about a valid write of the object itself that this kind needs in addition to those of @oarlock/api. */
  warnings?(object: KubeObject, old: KubeObject | undefined): readonly string[];
  /** Returns the grace period of a deletion in seconds, from the requested one. Defined only for kinds with graceful deletion. */
  gracePeriod?(object: KubeObject, requested: number | undefined): number;
  /**
   * Returns true if finalizers other than `metadata.finalizers`, such as `spec.finalizers` of a Namespace, prevent the removal of the
   * object.
   */
  isHeld?(object: KubeObject): boolean;
  /** Returns the object as it is stored when its deletion begins, such as a Namespace with phase Terminating. */
  markTerminating?(object: KubeObject): KubeObject;
  /**
   * Allocates exclusive resources such as cluster IPs for the object, and releases those of `old` that are no longer needed. `object` is
   * undefined on deletion.
   */
  allocate?(
    object: KubeObject | undefined,
    old: KubeObject | undefined,
    context: StrategyContext,
  ): AllocatedObject | Promise<AllocatedObject>;
}

type Fields = Readonly<Record<string, unknown>>;

/** Returns a top-level field of an object of unknown kind; undefined if the object or the field is absent. */
export function fieldOf(object: KubeObject | undefined, name: string): unknown {
  return (object as Fields | undefined)?.[name];
}
export function specOf<T = Fields>(object: KubeObject | undefined): Partial<T> {
  return (fieldOf(object, 'spec') ?? {}) as Partial<T>;
}
export function statusOf<T = Fields>(object: KubeObject | undefined): Partial<T> {
  return (fieldOf(object, 'status') ?? {}) as Partial<T>;
}

/** Returns a copy of the object with fields replaced; a field set to undefined is removed. */
export function withFields(object: KubeObject, parts: Fields): KubeObject {
  return withReplacedFields(object as Fields, parts) as KubeObject;
}

export function withMetadata(object: KubeObject, parts: Fields): KubeObject {
  return copyFields(object, { metadata: withReplacedFields((object.metadata ?? {}) as Fields, parts) });
}

/** Returns a copy with fields replaced. Does not use `delete`, which would turn the object into V8's slow dictionary mode. */
function withReplacedFields(fields: Fields, parts: Fields): Record<string, unknown> {
  let leaves = false;
  for (const name in parts) leaves ||= parts[name] === undefined;
  if (!leaves) return copyFields(fields, parts);
  const result: Record<string, unknown> = {};
  for (const name in fields)
    if (!(name in parts)) result[name] = fields[name];
    else if (parts[name] !== undefined) result[name] = parts[name];
  for (const name in parts) if (parts[name] !== undefined && !Object.hasOwn(fields, name)) result[name] = parts[name];
  return result;
}
