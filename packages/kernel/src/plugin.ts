import type { Tracer } from '@opentelemetry/api';
import type { Registry } from 'prom-client';
import type { z } from 'zod';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';

declare const valueType: unique symbol;

/** How many plugins may fill a slot, and therefore what a consumer receives: see `SlotValue`. */
export type Arity = 'one' | 'chain' | 'named';

/**
 * A typed extension point that plugins fill. Slots are made by `slot.one`, `slot.chain` and `slot.named`.
 *
 * `Slot` and `Plugin` refer to each other, so both are declared in this file.
 */
export interface Slot<T, A extends Arity = Arity> {
  /** Name and version of the interface. A breaking change of the interface needs a new slot: `storage/v2`. */
  readonly id: `${string}/v${number}`;
  readonly arity: A;
  /** The container's token: a `Symbol.for`, so that two copies of this package use the same one. */
  readonly token: symbol;
  /** Carries `T` to the type checker; absent at run time. */
  readonly [valueType]?: T;
  /** Declares a plugin for this slot. */
  plugin<C extends z.ZodType, const N extends Needs = {}>(spec: PluginSpec<T, C, N>): Plugin;
}

/** A need that may stay empty: the consumer then receives `undefined`. Only slots of arity `one` need this; chains and maps may be empty anyway. */
export interface OptionalSlot<T> {
  readonly optional: Slot<T, 'one'>;
}

/** The value that a consumer of a slot receives: one value, a list in the order of the composition, or a map by plugin name. */
export type SlotValue<S> =
  S extends OptionalSlot<infer T>
    ? T | undefined
    : S extends Slot<infer T, infer A>
      ? A extends 'one'
        ? T
        : A extends 'chain'
          ? readonly T[]
          : ReadonlyMap<string, T>
      : never;

// `Slot<T>` is invariant in T, so a record of slots of different types can only be typed with `any`.
// biome-ignore lint/suspicious/noExplicitAny: see above
export type AnySlot = Slot<any> | OptionalSlot<any>;

/** Returns the slot that a need refers to, optional or not. */
export function slotOf(need: AnySlot): Slot<unknown> {
  return 'optional' in need ? need.optional : need;
}

/** The slots that a plugin consumes, by the names under which `create` receives their values. */
export type Needs = Readonly<Record<string, AnySlot>>;
/** The values of the slots in `N`, by the same names. */
export type Dependencies<N extends Needs> = { readonly [K in keyof N]: SlotValue<N[K]> };

/** Optional methods of the object that a plugin creates. Only the host calls them. */
export interface Lifecycle {
  /**
   * Opens sockets and files and starts background work.
   *
   * The host calls it once, after everything that the plugin needs has started. A rejection fails the start of the whole
   * host; `stop` is called then as well. The signal aborts when the start was canceled.
   */
  start?(signal: AbortSignal): Promise<void>;
  /**
   * Releases what `start` acquired.
   *
   * The host calls `stop` before it stops the plugins that this plugin needs, and also after `start` failed, so `stop` must handle a partial start. A
   * rejection is reported and does not prevent other plugins from being stopped.
   */
  stop?(): Promise<void>;
}

/** Services that the host supplies to every plugin instance. They are valid until the instance has stopped. */
export interface PluginContext {
  /** The plugin's name in the composition: its id, or the `name` in `cluster.yaml`. */
  readonly name: string;
  readonly log: Logger;
  /** Series registered here appear on `/metrics`. */
  readonly metrics: Registry;
  readonly clock: Clock;
  /** Aborts when the plugin is stopped, before `stop` is called. */
  readonly signal: AbortSignal;
  readonly tracer: Tracer;
  /** A directory reserved for this plugin. The host does not create the directory: a plugin that needs it creates it in `start`, with mode 0700. */
  readonly dataDir: string;
}

/** The result of a probe. `reason` completes the sentence "NAME is not available on this machine: ...". */
export type Availability = { readonly available: true } | { readonly available: false; readonly reason: string };
export const available: Availability = { available: true };
export const unavailable = (reason: string): Availability => ({ available: false, reason });

/**
 * What the author of a plugin writes.
 *
 * ```ts
 * export default Authz.plugin({
 *   id: 'authz-always-allow',
 *   config: z.strictObject({ reason: z.string().default('always allowed') }),
 *   create: ({ config }) => ({ authorize: () => ({ decision: 'allow', reason: config.reason }) }),
 * });
 * ```
 *
 * The host validates `config`, calls `probe`, then `create`, then `start` of the created object.
 */
export interface PluginSpec<T, C extends z.ZodType, N extends Needs> {
  /** Also the name of the package and of the plugin in `cluster.yaml`. */
  readonly id: string;
  /** A strict schema: unknown keys are rejected by name. */
  readonly config: C;
  readonly needs?: N;
  /** Static properties by which others may select the plugin before it is created, such as `{ durable: true }`. */
  readonly declares?: Readonly<Record<string, string | boolean>>;
  /**
   * Reports whether this machine has what the plugin needs, such as a socket, a binary or root. Changes nothing, and takes at
   * most one second. A missing prerequisite is a result, not an error.
   */
  probe?(config: z.output<C>): Promise<Availability>;
  /**
   * Returns what the plugin changes on this machine and cannot share with another cluster, as phrases such as `the bridge oarlock0`. Of the processes of a
   * network namespace, one at a time may start with a phrase.
   */
  exclusiveParts?(config: z.output<C>): readonly string[];
  /**
   * Returns the plugin's object. Only wires: I/O, timers and `await` belong in `start`.
   *
   * The values in `dependencies` are created but not started at this point: store them, and call them from `start` on.
   */
  create(dependencies: Dependencies<N> & { readonly config: z.output<C> }, context: PluginContext): T & Lifecycle;
}

/** What the host loads: a `PluginSpec` whose types were checked by the slot that declared it. */
export interface Plugin {
  readonly id: string;
  // biome-ignore lint/suspicious/noExplicitAny: the slot checked the type where the plugin was declared
  readonly provides: Slot<any>;
  readonly config: z.ZodType;
  readonly needs: Needs;
  readonly declares?: Readonly<Record<string, string | boolean>>;
  probe?(config: unknown): Promise<Availability>;
  exclusiveParts?(config: unknown): readonly string[];
  create(dependencies: Record<string, unknown>, context: PluginContext): Lifecycle;
}

/** Returns true if the default export of a module is a plugin. */
export function isPlugin(value: unknown): value is Plugin {
  if (typeof value !== 'object' || value === null) return false;
  const { id, provides, config, create } = value as Partial<Plugin>;
  return (
    typeof id === 'string' && typeof provides?.id === 'string' && typeof config?.safeParse === 'function' && typeof create === 'function'
  );
}

const names = new WeakMap<object, string>();

/** Records the name that an instance has in the composition. For the host. */
export function namePlugin(instance: object, name: string): void {
  names.set(instance, name);
}

/** Returns the name that an instance has in the composition, for logs, spans and messages; '' for an object that no host created. */
export function pluginNameOf(instance: object): string {
  return names.get(instance) ?? '';
}
