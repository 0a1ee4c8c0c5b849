import type { FieldError } from '@oarlock/api/field/field-error';
import type { KubeObject } from '@oarlock/api/object';
import type { Identity } from '@oarlock/spi/authn';
import type { Precondition, Write } from '@oarlock/spi/storage';
import type { FieldReaders } from '../watch-cache/selection.ts';

/** The request that a strategy runs for: its identity, time, and warnings. */
export interface StrategyContext {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly identity: Identity;
  /** The IP address of the client, if the request came over the network. */
  readonly sourceAddress?: string;
  readonly dryRun: boolean;
  /** Reservation keys that a previous commit attempt of this request found taken. */
  readonly takenReservations: Set<string>;
  warn(message: string): void;
}

/** The update rules of a subresource. Objects are frozen or shared: implementations return a changed copy. */
export interface SubresourceStrategy {
  prepareForUpdate(object: KubeObject, old: KubeObject, context: StrategyContext): KubeObject;
  /** Replaces the kind's own update validation. */
  validate?(object: KubeObject, old: KubeObject, context: StrategyContext): readonly FieldError[];
}

/**
 * Writes that are committed together with an object, such as the IPAddress of a Service (upstream's transactional allocation of BeginCreate
 * and BeginUpdate).
 */
export interface Allocation {
  readonly writes: readonly Write[];
  readonly expect: readonly Precondition[];
  /** Called when one of the preconditions on `key` failed, before the write is decided again. */
  onConflict(key: string, present: boolean): void;
}

/** An object and the writes that must be committed with it. */
export interface AllocatedObject {
  readonly object: KubeObject;
  readonly reservation: Allocation | undefined;
}

/**
 * The rules of one kind (RESTCreateStrategy, RESTUpdateStrategy and RESTDeleteStrategy upstream). Every member is optional; a kind without a
 * strategy is served by the generic rules: only the status subresource changes the status, and the generation counts as upstream does.
 */
export interface Strategy {
  /** Fields that selectors may name, besides name and namespace. */
  readonly fields?: FieldReaders;
  /** The field that objects and watchers are indexed by. */
  readonly indexField?: string;
  /** True if PUT creates an object that does not exist. */
  readonly allowCreateOnUpdate?: boolean;
  /** True (the default) if PUT without a resourceVersion overwrites the current object. */
  readonly allowUnconditionalUpdate?: boolean;
  /** True if DELETE returns the object instead of a Status. */
  readonly returnsDeletedObject?: boolean;
  /** What happens to dependents if the request has no propagation policy; `background` by default. */
  readonly defaultGarbageCollectionPolicy?: 'background' | 'orphan' | 'unsupported';
  readonly ttlSeconds?: number;
  /** Whether changes of the spec increment `metadata.generation`; a function decides if more or less than the spec counts. */
  readonly generation?: boolean | ((object: KubeObject, old: KubeObject) => boolean);
  /** True if the status that clients send on create is kept. */
  readonly keepsStatusOnCreate?: boolean;
  prepareForCreate?(object: KubeObject, context: StrategyContext): KubeObject;
  prepareForUpdate?(object: KubeObject, old: KubeObject, context: StrategyContext): KubeObject;
  /** By subresource; `status` falls back to generic rules. */
  readonly subresources?: Readonly<Record<string, SubresourceStrategy>>;
  /** Returns errors in addition to the validation of @oarlock/api. */
  validate?(object: KubeObject, context: StrategyContext): readonly FieldError[];
  validateUpdate?(object: KubeObject, old: KubeObject, context: StrategyContext): readonly FieldError[];
  /** Returns the grace period in seconds; only defined for kinds with graceful deletion. */
  gracePeriod?(object: KubeObject, requested: number | undefined): number;
  /** Returns true if finalizers of the kind itself, such as `spec.finalizers`, hold the object. */
  isHeld?(object: KubeObject): boolean;
  /** Changes the object when its deletion begins, such as the phase of a Namespace. */
  markTerminating?(object: KubeObject): KubeObject;
  /** Allocates exclusive resources such as cluster IPs, and releases the ones no longer needed. `object` is undefined on deletion. */
  allocate?(
    object: KubeObject | undefined,
    old: KubeObject | undefined,
    context: StrategyContext,
  ): AllocatedObject | Promise<AllocatedObject>;
}

type Fields = Readonly<Record<string, unknown>>;

/** Returns a member of an object of unknown kind. */
export function fieldOf(object: KubeObject | undefined, name: string): unknown {
  return (object as Fields | undefined)?.[name];
}
export function specOf<T = Fields>(object: KubeObject | undefined): Partial<T> {
  return (fieldOf(object, 'spec') ?? {}) as Partial<T>;
}
export function statusOf<T = Fields>(object: KubeObject | undefined): Partial<T> {
  return (fieldOf(object, 'status') ?? {}) as Partial<T>;
}

/** Replaces members of an object; members set to undefined are removed. */
export function withFields(object: KubeObject, parts: Fields): KubeObject {
  return withReplacedFields(object as Fields, parts) as KubeObject;
}

export function withMetadata(object: KubeObject, parts: Fields): KubeObject {
  return { ...object, metadata: withReplacedFields((object.metadata ?? {}) as Fields, parts) };
}

/** Copies without `delete`, which would turn the object into V8's slow dictionary mode. */
function withReplacedFields(fields: Fields, parts: Fields): Record<string, unknown> {
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
