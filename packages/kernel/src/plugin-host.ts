import { setMaxListeners } from 'node:events';
import { join } from 'node:path';
import type { Tracer } from '@opentelemetry/api';
import { Registry } from 'prom-client';
import type { Clock } from '@oarlock/primitives/clock';
import { systemClock } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';
import { Container } from './internal/container.ts';
import { WiringError, type Fault } from './errors.ts';
import { checkComposition, type PlacedNode } from './internal/composition-check.ts';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import { namePlugin, slotOf, type AnySlot, type Lifecycle, type Plugin, type PluginContext, type Slot, type SlotValue } from './plugin.ts';
import { checkConfig, type SwappableInstance, type Placement } from './placement.ts';
import { LifecycleCalls } from './internal/lifecycle-calls.ts';
import { PluginHealth, type PluginHealthView } from './plugin-health.ts';
import { noTracer } from './tracing.ts';

/** A probe that takes longer is reported in the log, in milliseconds. */
const slowProbeMs = 2_000;

/** Services that the host passes on to every plugin. Tests usually set the clock only. */
export interface PluginHostOptions {
  readonly clock?: Clock;
  readonly log?: Logger;
  readonly tracer?: (plugin: string) => Tracer;
  readonly dataDir?: string;
  /** Called before the first plugin is stopped, also when a failed start stops the plugins that had started. */
  readonly onStopping?: () => void;
  /** Called when a plugin with `limits` becomes unhealthy or healthy. */
  readonly onHealthChange?: (health: PluginHealthView) => void;
}

/** What belongs to one instance of a plugin; a replacement gets a new one. */
interface PluginInstance {
  readonly plugin: Plugin;
  readonly config: unknown;
  readonly abort: AbortController;
  readonly metrics: Registry;
  instance?: Lifecycle;
}

interface HostedPlugin extends PlacedNode {
  readonly placement: Placement;
  readonly health: PluginHealth;
  current: PluginInstance;
  swappable?: SwappableInstance | undefined;
}

/** A plugin of the host as metrics and status commands see it. */
export interface HostedPluginInfo {
  readonly name: string;
  readonly plugin: Plugin;
  /** The parsed config of the running version. */
  readonly config: unknown;
  readonly started: boolean;
  readonly metrics: Registry;
  /** Undefined for a plugin without `limits`. */
  readonly health: PluginHealth | undefined;
}

/** The plugin that replaces the one of the given name. */
export interface PluginReplacement {
  readonly name: string;
  readonly plugin: Plugin;
  readonly config: unknown;
}

/**
 * Creates the plugins of a composition and controls the order in which they start and stop.
 *
 * Call `add` for every plugin, then `check` (reads the composition only), `probe` (reads the machine) and `start`, which
 * includes both. A host is started once. A plugin starts after everything it needs, otherwise in the order of `add`.
 * Plugins stop in reverse order, including one whose start failed half way.
 */
export class PluginHost {
  readonly #container = new Container();
  readonly #options: Required<PluginHostOptions>;
  readonly #provided = new Map<symbol, string>();
  readonly #plugins: HostedPlugin[] = [];
  readonly #faults: Fault[] = [];
  /** Plugins whose config is invalid. They still count as fillers of their slot, so that one error is not reported as two. */
  readonly #rejected: PlacedNode[] = [];
  /** In order of creation, so dependencies come first. */
  readonly #created: HostedPlugin[] = [];
  #started: HostedPlugin[] = [];
  /** Stops of instances that were replaced and may still have calls in flight. */
  readonly #retiring = new Set<() => Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #calls: LifecycleCalls;

  constructor({
    clock = systemClock,
    log = silentLogger,
    tracer = () => noTracer,
    dataDir = '.oarlock',
    onStopping = () => {},
    onHealthChange = () => {},
  }: PluginHostOptions = {}) {
    this.#options = { clock, log, tracer, dataDir, onStopping, onHealthChange };
    this.#calls = new LifecycleCalls(clock, log);
    setMaxListeners(0, this.#stopping.signal); // each guard adds a listener
  }

  /** Fills a slot with a value that no plugin creates, such as the client. The host does not start or stop it. */
  provide<T>(slot: Slot<T, 'one'>, value: T): this {
    this.#container.registerValue(slot.token, value);
    this.#provided.set(slot.token, slot.id);
    return this;
  }

  /** Declares that the composition will fill a slot, for a `check` without the value. */
  declareProvided(slot: Slot<unknown, 'one'>): this {
    this.#provided.set(slot.token, slot.id);
    return this;
  }

  /** Adds a plugin. Errors in its config are kept for `check`, so that all faults are reported together. */
  add(placement: Placement): this {
    const { plugin, at, path } = placement;
    const name = placement.name ?? plugin.id;
    const checked = checkConfig(placement, { name, plugin, config: placement.config });
    if ('faults' in checked) {
      this.#faults.push(...checked.faults);
      this.#rejected.push({ name, plugin, ...(at && { at }), ...(path !== undefined && { path }) });
      return this;
    }
    const unit: HostedPlugin = {
      name,
      plugin,
      placement,
      health: this.#healthOf(name, placement),
      current: { plugin, config: checked.config, abort: new AbortController(), metrics: new Registry() },
      ...(at && { at }),
      ...(path !== undefined && { path }),
    };
    this.#plugins.push(unit);
    this.#container.registerFactory(plugin.provides.token, () => {
      const instance = this.#createInstance(unit);
      return plugin.provides.arity === 'named' ? { name, instance } : instance;
    });
    return this;
  }

  /** Returns every fault that can be found without running a plugin. */
  check(): readonly Fault[] {
    return [...this.#faults, ...checkComposition([...this.#plugins, ...this.#rejected], this.#provided)];
  }

  /** Probes all plugins at once and returns a fault for each that is not available. Logs a warning for each slow probe. */
  async probe(): Promise<readonly Fault[]> {
    const { clock, log } = this.#options;
    const results = await Promise.all(
      this.#plugins.map(async (unit): Promise<Fault | undefined> => {
        const slow = clock.after(slowProbeMs, () => log.warn({ plugin: unit.name }, 'the availability probe is still running'));
        let availability;
        try {
          availability = await unit.plugin.probe?.(unit.current.config);
        } finally {
          slow.cancel();
        }
        return availability === undefined || availability.available
          ? undefined
          : {
              code: 'Unavailable',
              message: `${unit.name} is not available on this machine: ${availability.reason}`,
              ...(unit.at && { at: unit.at }),
              ...(unit.path !== undefined && { path: unit.path }),
            };
      }),
    );
    return results.filter((fault) => fault !== undefined);
  }
  /**
   * Returns the value of a slot, and creates the plugins that fill it where that has not happened yet.
   * @throws WiringError `SlotEmpty` if no plugin fills a required slot of arity `one`, `CreateFailed`
   */
  get<S extends AnySlot>(need: S): SlotValue<S> {
    const { token, arity, id } = slotOf(need);
    if (arity === 'one') {
      if (this.#container.has(token)) return this.#container.resolve(token) as SlotValue<S>;
      if ('optional' in need) return undefined as SlotValue<S>;
      throw new WiringError([{ code: 'SlotEmpty', message: `no plugin fills slot ${id}: add one, or fill it with provide()` }]);
    }
    const all = this.#container.resolveAll(token);
    if (arity === 'chain') return all as unknown as SlotValue<S>;
    return new Map((all as { name: string; instance: unknown }[]).map((entry) => [entry.name, entry.instance])) as unknown as SlotValue<S>;
  }

  /**
   * Checks, probes, creates and starts all plugins.
   * @throws WiringError with all faults. In that case no plugin runs: those that had started were stopped again.
   */
  async start(signal: AbortSignal = new AbortController().signal): Promise<void> {
    const faults = [...this.check()];
    if (faults.length === 0) faults.push(...(await this.probe()));
    if (faults.length > 0) throw new WiringError(faults);
    for (const { plugin } of this.#plugins) this.get(plugin.provides);
    for (const unit of this.#created) {
      this.#started.push(unit); // before start(), so that stop() includes a plugin whose start fails half way
      try {
        signal.throwIfAborted();
        await this.#calls.start(unit, unit.current.instance, signal);
      } catch (cause) {
        const stopped = await this.stop().then(
          () => [],
          (error: unknown) => (error instanceof WiringError ? error.faults : []),
        );
        throw new WiringError([this.#fault('StartFailed', { unit, what: 'did not start', cause }), ...stopped], { cause });
      }
    }
  }

  /**
   * Stops all plugins in reverse order. Stops the remaining plugins even if one fails, and logs a warning for each slow plugin.
   * @throws WiringError `StopFailed` if a plugin fails to stop
   */
  async stop(): Promise<void> {
    this.#options.onStopping();
    this.#stopping.abort();
    const faults: Fault[] = [];
    for (const retire of this.#retiring) await retire().catch(() => {}); // the caller of replace() receives the rejection
    for (let unit = this.#started.at(-1); unit !== undefined; unit = this.#started.at(-1)) {
      try {
        await this.#endInstance(unit, unit.current);
      } catch (error) {
        faults.push(this.#fault('StopFailed', { unit, what: 'did not stop cleanly', cause: error }));
      }
      this.#started.pop();
    }
    if (faults.length > 0) throw new WiringError(faults);
  }

  get plugins(): readonly HostedPluginInfo[] {
    return this.#plugins.map((unit) => ({
      name: unit.name,
      plugin: unit.current.plugin,
      config: unit.current.config,
      started: this.#started.includes(unit),
      metrics: unit.current.metrics,
      health: unit.placement.limits && unit.health,
    }));
  }

  /**
   * Replaces a running plugin that has a swappable instance, by another version or by the same with another config.
   *
   * Resolves when new calls go to the new instance; `retired` resolves when the previous one has stopped. If anything
   * fails before that, the previous instance stays in use.
   * @throws WiringError with every fault
   */
  async replace(slot: Slot<unknown>, { name, plugin, config }: PluginReplacement): Promise<{ readonly retired: Promise<void> }> {
    const unit = this.#plugins.find((each) => each.name === name && each.plugin.provides.token === slot.token);
    if (unit?.swappable === undefined || !this.#started.includes(unit)) throw new Error(`${name} of ${slot.id} cannot be replaced`);
    const { at, path } = unit;
    const checked = checkConfig(unit.placement, { name, plugin, config });
    const faults = [...('faults' in checked ? checked.faults : [])];
    if (plugin.provides.token !== slot.token)
      faults.push({
        code: 'WrongSlot',
        message: `${name} fills slot ${plugin.provides.id}, but replaces a plugin of slot ${slot.id}`,
        ...(at && { at }),
        ...(path !== undefined && { path }),
      });
    const others = this.#plugins.filter((each) => each !== unit);
    const candidate = { name, plugin, ...(at && { at }), ...(path !== undefined && { path }) };
    faults.push(...checkComposition([...others, candidate], this.#provided));
    if (faults.length > 0 || 'faults' in checked) throw new WiringError(faults);
    const next: PluginInstance = { plugin, config: checked.config, abort: new AbortController(), metrics: new Registry() };
    const exposed = this.#create(unit, next);
    try {
      await this.#calls.start(unit, next.instance, next.abort.signal);
    } catch (cause) {
      await this.#endInstance(unit, next).catch(() => {}); // the failure of start is the one to report
      throw new WiringError([this.#fault('StartFailed', { unit, what: 'did not start', cause: cause })], { cause });
    }
    const before = unit.current;
    unit.current = next;
    unit.health.reset();
    let ended: Promise<void> | undefined;
    const retire = () => {
      this.#retiring.delete(retire);
      return (ended ??= this.#endInstance(unit, before));
    };
    this.#retiring.add(retire);
    return { retired: unit.swappable.swap(exposed).then(retire) };
  }

  #createInstance(unit: HostedPlugin): object {
    const exposed = this.#create(unit, unit.current);
    unit.swappable = unit.placement.makeSwappable?.(exposed, this.#contextOf(unit, unit.current));
    const held = unit.swappable?.instance ?? exposed;
    namePlugin(held, unit.name);
    this.#created.push(unit);
    return held;
  }

  /** Creates an instance and returns what consumers see of it: the instance, or its decoration. */
  #create(unit: HostedPlugin, target: PluginInstance): object {
    const { plugin, config } = target;
    const context = this.#contextOf(unit, target);
    const dependencies = Object.fromEntries(Object.entries(plugin.needs).map(([key, need]) => [key, this.get(need)]));
    try {
      const instance = this.#calls.create(unit, () => plugin.create({ ...dependencies, config }, context));
      target.instance = instance;
      return unit.placement.decorate?.(instance, context, unit.health) ?? instance;
    } catch (cause) {
      if (cause instanceof WiringError) throw cause;
      throw new WiringError([this.#fault('CreateFailed', { unit, what: 'could not be created', cause })], { cause });
    }
  }

  #contextOf({ name, placement }: HostedPlugin, { metrics, abort }: PluginInstance): PluginContext {
    const { clock, tracer, dataDir } = this.#options;
    return {
      name,
      clock,
      metrics,
      signal: abort.signal,
      log: this.#logOf(name, placement),
      tracer: tracer(name),
      dataDir: join(dataDir, name),
    };
  }

  #logOf(name: string, placement: Placement): Logger {
    const log = this.#options.log.child({ plugin: name });
    return placement.decorateLog?.(log) ?? log;
  }

  #healthOf(name: string, placement: Placement): PluginHealth {
    const { clock, onHealthChange } = this.#options;
    const { signal: stopping } = this.#stopping;
    return new PluginHealth({
      name,
      slot: placement.plugin.provides.id,
      clock,
      log: this.#logOf(name, placement),
      stopping,
      onChange: onHealthChange,
    });
  }

  async #endInstance(unit: HostedPlugin, { abort, instance }: PluginInstance): Promise<void> {
    abort.abort();
    await this.#calls.stop(unit, instance);
  }

  #fault(
    code: Fault['code'],
    { unit, what, cause }: { readonly unit: HostedPlugin; readonly what: string; readonly cause: unknown },
  ): Fault {
    const why = errorText(cause);
    return {
      code,
      message: `${unit.name} ${what}: ${why}`,
      ...(unit.at && { at: unit.at }),
      ...(unit.path !== undefined && { path: unit.path }),
    };
  }
}
