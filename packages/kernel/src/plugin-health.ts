import { AsyncLocalStorage } from 'node:async_hooks';
import type { Clock } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';
import type { Logger } from '@oarlock/primitives/logger';

/**
 * What went wrong in a plugin: `error`, a call threw or rejected; `deadline`, a call had no result in time; `late`, an error that no call
 * returned, such as a rejection that nothing awaits; `ended`, the thread or process of the plugin ended; `denied`, the API server rejected a request of the
 * plugin because the plugin does not declare the permission.
 */
export type PluginFaultKind = 'error' | 'deadline' | 'late' | 'ended' | 'denied';

/** The health of one plugin at one time. */
export interface PluginHealthView {
  readonly name: string;
  /** The id of the slot that the plugin fills. */
  readonly slot: string;
  readonly healthy: boolean;
  /** True while calls of the plugin fail without reaching it. */
  readonly suspended: boolean;
  /** The latest fault, if the plugin is unhealthy. */
  readonly reason?: string;
  readonly faults: Readonly<Record<PluginFaultKind, number>>;
}

/** Time in milliseconds after the latest fault for which a plugin counts as unhealthy. */
export const unhealthyForMs = 60_000;
/** A plugin with more late errors than this within `unhealthyForMs` is suspended for as long. */
export const maxLateErrors = 10;
/** Interval in milliseconds at which late errors of one plugin are logged after the first `maxLateErrors`. */
const logEveryMs = 10_000;

const scope = new AsyncLocalStorage<PluginHealth>();
let lastEntered: PluginHealth | undefined;

const setLastEntered = (health: PluginHealth): void => {
  lastEntered = health;
};

/** Returns the plugin whose synchronous method ran last outside of an attributed operation: see `PluginHealth.enter`. */
export const lastEnteredPlugin = (): PluginHealth | undefined => lastEntered;

/** The plugins whose calls failed with these errors. */
const owners = new WeakMap<Error, PluginHealth>();

/** Returns the health of the plugin whose call failed with this error, if a guard has seen the error. */
export const failedPlugin = (error: unknown): PluginHealth | undefined => (error instanceof Error ? owners.get(error) : undefined);

/** Returns the health of the plugin whose code runs now, or whose code started the current asynchronous operation. */
export const runningPlugin = (): PluginHealth | undefined => scope.getStore();

export interface PluginHealthOptions {
  readonly name: string;
  readonly slot: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Aborts when the host begins to stop; calls in flight are then abandoned. */
  readonly stopping: AbortSignal;
  /** Called when the plugin becomes unhealthy, suspended or healthy. */
  readonly onChange?: (health: PluginHealthView) => void;
}

/**
 * Counts the faults of one plugin and attributes late errors to it.
 *
 * A call that fails with an error only counts: errors are how many plugins report a retry. Any other fault makes the plugin unhealthy until
 * `unhealthyForMs` have passed without a fault. More than `maxLateErrors` late errors in that time suspend it for `unhealthyForMs`.
 */
export class PluginHealth {
  readonly stopping: AbortSignal;
  readonly #options: PluginHealthOptions;
  readonly #faults: Record<PluginFaultKind, number> = { error: 0, deadline: 0, late: 0, ended: 0, denied: 0 };
  #reason = '';
  #lastFaultAt: number | undefined;
  #suspendedAt: number | undefined;
  /** Number of late errors since `#lateSince`. */
  #lateErrors = 0;
  #lateSince = 0;
  #loggedAt: number | undefined;
  #recovery: { cancel(): void } | undefined;

  constructor(options: PluginHealthOptions) {
    this.#options = options;
    this.stopping = options.stopping;
  }

  get name(): string {
    return this.#options.name;
  }
  get isSuspended(): boolean {
    return this.#suspendedAt !== undefined;
  }

  /** Notes that a synchronous method of the plugin runs. For methods that are called too often for `run`. */
  enter(): void {
    setLastEntered(this);
  }

  /** Runs code of the plugin: errors of asynchronous operations that it starts are attributed to the plugin. */
  run<T>(work: () => T): T {
    return scope.run(this, work);
  }

  view(): PluginHealthView {
    const { name, slot } = this.#options;
    const healthy = this.#lastFaultAt === undefined;
    return {
      name,
      slot,
      healthy,
      suspended: this.isSuspended,
      ...(!healthy && { reason: this.#reason }),
      faults: { ...this.#faults },
    };
  }

  /** Records a fault. The caller logs faults of calls; late errors are logged here, many of them at intervals. */
  report(kind: PluginFaultKind, error: unknown): void {
    this.#faults[kind] += 1;
    if (error instanceof Error) owners.set(error, this);
    if (kind === 'error') return;
    const now = this.#options.clock.monotonic();
    const wasHealthy = this.#lastFaultAt === undefined;
    this.#lastFaultAt = now;
    this.#reason = errorText(error);
    if (kind === 'late') this.#onLateError(error, now);
    const suspends = this.#lateErrors > maxLateErrors && !this.isSuspended;
    if (suspends) {
      this.#suspendedAt = now;
      this.#reason = `suspended for ${unhealthyForMs / 1000} s after ${this.#lateErrors} unhandled errors: ${this.#reason}`;
      this.#options.log.error({ err: error }, this.#reason);
    }
    this.#scheduleRecovery();
    if (wasHealthy || suspends) this.#options.onChange?.(this.view());
  }

  /** Ends a suspension and the unhealthy state, because another version of the plugin runs. */
  reset(): void {
    this.#recovery?.cancel();
    this.#recovery = undefined;
    if (this.#lastFaultAt === undefined) return;
    this.#lastFaultAt = undefined;
    this.#suspendedAt = undefined;
    this.#lateErrors = 0;
    this.#options.onChange?.(this.view());
  }

  #onLateError(error: unknown, now: number): void {
    if (now - this.#lateSince > unhealthyForMs) {
      this.#lateSince = now;
      this.#lateErrors = 0;
    }
    this.#lateErrors += 1;
    if (this.#lateErrors > maxLateErrors && this.#loggedAt !== undefined && now - this.#loggedAt < logEveryMs) return;
    this.#loggedAt = now;
    this.#options.log.error({ err: error, count: this.#faults.late }, 'the plugin has an error that it does not handle');
  }

  /** One timer: it is armed again if further faults have occurred when it fires. */
  #scheduleRecovery(): void {
    const { clock } = this.#options;
    this.#recovery ??= clock.after(unhealthyForMs, () => {
      this.#recovery = undefined;
      const now = clock.monotonic();
      const since = this.#suspendedAt ?? this.#lastFaultAt ?? now;
      if (now - since < unhealthyForMs) this.#scheduleRecovery();
      else this.reset();
    });
  }
}
