import type { Tracer } from '@opentelemetry/api';
import type { Registry } from 'prom-client';
import type { z } from 'zod';
import type { Clock } from './clock.ts';
import type { Logger } from './logger.ts';
import type { Filled, OptionalSlot, Slot } from './slot.ts';

/** Optional methods of whatever a plugin creates. The host calls them; nobody else does. */
export interface Lifecycle {
  /** Opens sockets, files and loops. Runs after everything it needs has started. The signal aborts a start that is no longer wanted. */
  start?(signal: AbortSignal): Promise<void>;
  /** Releases what `start` took. Runs before anything it needs stops, even when `start` threw half way. */
  stop?(): Promise<void>;
}

// Slots are invariant in what fills them; a table of unlike slots can only be typed by the widest one.
// biome-ignore lint/suspicious/noExplicitAny: see above
export type AnySlot = Slot<any> | OptionalSlot<any>;
/** The slot behind a need, optional or not. */
export function slotOf(need: AnySlot): Slot<unknown> {
  return 'optional' in need ? need.optional : need;
}

export type Needs = Readonly<Record<string, AnySlot>>;
export type Given<N extends Needs> = { readonly [K in keyof N]: Filled<N[K]> };

/** What the kernel itself hands to every plugin. All of it ends with the plugin. */
export interface PluginContext {
  /** The name under which the plugin is placed: its id, or the name `cluster.yaml` gives. */
  readonly name: string;
  readonly log: Logger;
  /** Series registered here appear on `/metrics`. */
  readonly metrics: Registry;
  readonly clock: Clock;
  /** Aborted when the plugin is stopped. */
  readonly signal: AbortSignal;
  readonly tracer: Tracer;
  /** A directory for this plugin alone. Not created: who needs it creates it in `start`, mode 0700. */
  readonly dataDir: string;
}

/** "Not here, because ..." is an answer, not a failure: no socket, no binary, not root. */
export type Availability = { readonly available: true } | { readonly available: false; readonly because: string };
export const available: Availability = { available: true };
export const unavailable = (because: string): Availability => ({ available: false, because });

/** What an author writes. */
export interface PluginSpec<T, C extends z.ZodType, N extends Needs> {
  /** Also the name of the package and of the plugin in `cluster.yaml`. */
  readonly id: string;
  /** A strict schema: unknown keys are refused by name. */
  readonly config: C;
  readonly needs?: N;
  /** Facts about the plugin that others may select by before it is created, such as `{ durable: true }`. */
  readonly declares?: Readonly<Record<string, string | boolean>>;
  /** Looks, without changing anything, whether this machine has what the plugin needs. Takes no longer than a second. */
  probe?(config: z.output<C>): Promise<Availability>;
  /** Pure wiring: no I/O, no timers, no `await`. Those belong in `start`. */
  create(given: Given<N> & { readonly config: z.output<C> }, context: PluginContext): T & Lifecycle;
}

/** What the host loads. */
export interface Plugin {
  readonly id: string;
  // biome-ignore lint/suspicious/noExplicitAny: a loaded plugin's filler is checked where it was declared
  readonly provides: Slot<any>;
  readonly config: z.ZodType;
  readonly needs: Needs;
  readonly declares?: Readonly<Record<string, string | boolean>>;
  probe?(config: unknown): Promise<Availability>;
  create(given: Record<string, unknown>, context: PluginContext): Lifecycle;
}

/** Tells a plugin from whatever else a module may export by default. */
export function isPlugin(value: unknown): value is Plugin {
  if (typeof value !== 'object' || value === null) return false;
  const { id, provides, config, create } = value as Partial<Plugin>;
  return (
    typeof id === 'string' && typeof provides?.id === 'string' && typeof config?.safeParse === 'function' && typeof create === 'function'
  );
}

const names = new WeakMap<object, string>();

/** For the host: remembers under which name an instance was placed. */
export function namePlugin(instance: object, name: string): void {
  names.set(instance, name);
}

/** The name under which a plugin that a slot delivered was placed, for logs, spans and messages; '' for what no host made. */
export function pluginNameOf(instance: object): string {
  return names.get(instance) ?? '';
}
