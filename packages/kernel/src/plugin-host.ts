import { join } from 'node:path';
import type { Tracer } from '@opentelemetry/api';
import { Registry } from 'prom-client';
import type { Clock } from './clock.ts';
import { systemClock } from './clock.ts';
import { Container } from './container.ts';
import { WiringError, type Fault } from './errors.ts';
import { checkGraph, type PlacedNode } from './graph.ts';
import { silentLogger, type Logger } from './logger.ts';
import { namePlugin, slotOf, type AnySlot, type Lifecycle, type Plugin, type PluginContext } from './plugin.ts';
import type { Filled, Slot } from './slot.ts';
import { checkConfig, type Front, type Placement } from './placement.ts';
import { noTracer } from './tracing.ts';

/** A probe that takes longer is told of, in milliseconds. */
const slowProbeMs = 2_000;

/** What the host hands on to every plugin. Tests give a fake clock and leave out the rest. */
export interface Facilities {
  readonly clock?: Clock;
  readonly log?: Logger;
  readonly tracer?: (plugin: string) => Tracer;
  readonly dataDir?: string;
  /** Is told before the first plugin is stopped, also when not all of them have started. */
  readonly stopping?: () => void;
}

/** What one instance of a plugin has for itself: a new one for each that takes its place. */
interface Generation {
  readonly plugin: Plugin;
  readonly config: unknown;
  readonly abort: AbortController;
  readonly metrics: Registry;
  instance?: Lifecycle;
}

interface Unit extends PlacedNode {
  readonly placement: Placement;
  now: Generation;
  front?: Front | undefined;
}

export interface UnitInfo {
  readonly name: string;
  readonly plugin: Plugin;
  readonly started: boolean;
  readonly metrics: Registry;
}

/**
 * Assembles plugins on a container and owns their order of start and stop.
 *
 * Place everything, then `check` (pure), `probe` (looks at the machine), `start`. A host is started once.
 * Start order: what a plugin needs comes first, otherwise the order of placement. Stop is the reverse, and covers a unit
 * whose start failed half way.
 */
export class PluginHost {
  readonly #container = new Container();
  readonly #facilities: Required<Facilities>;
  readonly #provided = new Map<symbol, string>();
  readonly #units: Unit[] = [];
  readonly #faults: Fault[] = [];
  /** Their config is wrong; their slot is meant to be filled all the same. */
  readonly #refused: PlacedNode[] = [];
  /** In order of creation, so dependencies come first. */
  readonly #created: Unit[] = [];
  #started: Unit[] = [];
  /** Ends instances that were replaced and are still in use. */
  readonly #retiring = new Set<() => Promise<void>>();

  constructor({
    clock = systemClock,
    log = silentLogger,
    tracer = () => noTracer,
    dataDir = '.oarlock',
    stopping = () => {},
  }: Facilities = {}) {
    this.#facilities = { clock, log, tracer, dataDir, stopping };
  }

  /** Fills a slot with a value of the composition's own, such as the client. It has no lifecycle here. */
  provide<T>(slot: Slot<T, 'one'>, value: T): this {
    this.#container.value(slot.token, value);
    this.#provided.set(slot.token, slot.id);
    return this;
  }

  /** Says that a slot will be filled by the composition, for a `check` without the value. */
  announce(slot: Slot<unknown, 'one'>): this {
    this.#provided.set(slot.token, slot.id);
    return this;
  }

  /** Adds a plugin. Faults in its config are kept for `check`, so that all of them can be reported together. */
  place(placement: Placement): this {
    const { plugin, at, path } = placement;
    const name = placement.name ?? plugin.id;
    const checked = checkConfig(placement, name, plugin, placement.config);
    if ('faults' in checked) {
      this.#faults.push(...checked.faults);
      this.#refused.push({ name, plugin, ...(at && { at }), ...(path !== undefined && { path }) });
      return this;
    }
    const unit: Unit = {
      name,
      plugin,
      placement,
      now: { plugin, config: checked.config, abort: new AbortController(), metrics: new Registry() },
      ...(at && { at }),
      ...(path !== undefined && { path }),
    };
    this.#units.push(unit);
    this.#container.factory(plugin.provides.token, () => {
      const instance = this.#first(unit);
      return plugin.provides.arity === 'named' ? { name, instance } : instance;
    });
    return this;
  }

  /** Everything that is wrong, found without running anything. */
  check(): readonly Fault[] {
    return [...this.#faults, ...checkGraph([...this.#units, ...this.#refused], this.#provided)];
  }

  /** Asks each plugin whether this machine has what it needs. Who takes long to answer is named in the log. */
  async probe(): Promise<readonly Fault[]> {
    const { clock, log } = this.#facilities;
    const answers = await Promise.all(
      this.#units.map(async (unit): Promise<Fault | undefined> => {
        const slow = clock.after(slowProbeMs, () => log.warn({ plugin: unit.name }, 'still asking whether it can run on this machine'));
        let answer;
        try {
          answer = await unit.plugin.probe?.(unit.now.config);
        } finally {
          slow.cancel();
        }
        return answer === undefined || answer.available
          ? undefined
          : {
              code: 'Unavailable',
              message: `${unit.name} is not available here, because ${answer.because}`,
              ...(unit.at && { at: unit.at }),
              ...(unit.path !== undefined && { path: unit.path }),
            };
      }),
    );
    return answers.filter((fault) => fault !== undefined);
  }

  get<S extends AnySlot>(need: S): Filled<S> {
    const { token, arity, id } = slotOf(need);
    if (arity === 'one') {
      if (this.#container.has(token)) return this.#container.one(token) as Filled<S>;
      if ('optional' in need) return undefined as Filled<S>;
      throw new WiringError([{ code: 'SlotEmpty', message: `nothing fills slot ${id}` }]);
    }
    const all = this.#container.all(token);
    if (arity === 'chain') return all as unknown as Filled<S>;
    return new Map((all as { name: string; instance: unknown }[]).map((entry) => [entry.name, entry.instance])) as unknown as Filled<S>;
  }

  /** @throws WiringError with all faults; nothing has been started then, or everything started has been stopped again. */
  async start(signal: AbortSignal = new AbortController().signal): Promise<void> {
    const faults = [...this.check()];
    if (faults.length === 0) faults.push(...(await this.probe()));
    if (faults.length > 0) throw new WiringError(faults);
    for (const { plugin } of this.#units) this.get(plugin.provides);
    for (const unit of this.#created) {
      this.#started.push(unit); // before start: stop() must see a half-started unit
      try {
        signal.throwIfAborted();
        await unit.now.instance?.start?.(signal);
      } catch (cause) {
        const stopped = await this.stop().then(
          () => [],
          (error: unknown) => (error instanceof WiringError ? error.faults : []),
        );
        throw new WiringError([this.#fault('StartFailed', unit, 'did not start', cause), ...stopped], { cause });
      }
    }
  }

  /** Stops in reverse. One that fails does not keep the others from being stopped. @throws WiringError `StopFailed` */
  async stop(): Promise<void> {
    this.#facilities.stopping();
    const faults: Fault[] = [];
    const end = async (unit: Unit, generation: Generation) => {
      generation.abort.abort();
      try {
        await generation.instance?.stop?.();
      } catch (error) {
        faults.push(this.#fault('StopFailed', unit, 'did not stop cleanly', error));
      }
    };
    for (const retire of this.#retiring) await retire().catch(() => {}); // told to who replaced it
    for (const unit of this.#started.reverse()) await end(unit, unit.now);
    this.#started = [];
    if (faults.length > 0) throw new WiringError(faults);
  }

  get units(): readonly UnitInfo[] {
    return this.#units.map((unit) => ({
      name: unit.name,
      plugin: unit.now.plugin,
      started: this.#started.includes(unit),
      metrics: unit.now.metrics,
    }));
  }

  /**
   * Puts another version of a plugin, or the same with another config, in the place of one that runs and has a `front`. Resolves when new
   * calls go to it; `retired` when the one before has ended. With a fault the one before stays.
   * @throws WiringError with every fault
   */
  async replace(slot: Slot<unknown>, name: string, plugin: Plugin, config: unknown): Promise<{ readonly retired: Promise<void> }> {
    const unit = this.#units.find((each) => each.name === name && each.plugin.provides.token === slot.token);
    if (unit?.front === undefined || !this.#started.includes(unit)) throw new Error(`${name} of ${slot.id} cannot be replaced`);
    const { at, path } = unit;
    const checked = checkConfig(unit.placement, name, plugin, config);
    const faults = [...('faults' in checked ? checked.faults : [])];
    if (plugin.provides.token !== slot.token)
      faults.push({
        code: 'WrongSlot',
        message: `${name} fills slot ${plugin.provides.id} now, and stands in ${slot.id}`,
        ...(at && { at }),
        ...(path !== undefined && { path }),
      });
    const others = this.#units.filter((each) => each !== unit);
    const here = { name, plugin, ...(at && { at }), ...(path !== undefined && { path }) };
    faults.push(...checkGraph([...others, here], this.#provided));
    if (faults.length > 0 || 'faults' in checked) throw new WiringError(faults);
    const next: Generation = { plugin, config: checked.config, abort: new AbortController(), metrics: new Registry() };
    const shown = this.#make(unit, next);
    const endOf = async (generation: Generation) => {
      generation.abort.abort();
      await generation.instance?.stop?.();
    };
    try {
      await next.instance?.start?.(next.abort.signal);
    } catch (cause) {
      await endOf(next).catch(() => {}); // what failed to start is the news
      throw new WiringError([this.#fault('StartFailed', unit, 'did not start', cause)], { cause });
    }
    const before = unit.now;
    unit.now = next;
    let ended: Promise<void> | undefined;
    const retire = () => {
      this.#retiring.delete(retire);
      return (ended ??= endOf(before));
    };
    this.#retiring.add(retire);
    return { retired: unit.front.swap(shown).then(retire) };
  }

  #first(unit: Unit): object {
    const shown = this.#make(unit, unit.now);
    unit.front = unit.placement.front?.(shown, this.#contextOf(unit, unit.now));
    const held = unit.front?.instance ?? shown;
    namePlugin(held, unit.name);
    this.#created.push(unit);
    return held;
  }

  /** Makes an instance; what others see of it is what `wrap` says. */
  #make(unit: Unit, generation: Generation): object {
    const { plugin, config } = generation;
    const context = this.#contextOf(unit, generation);
    const given = Object.fromEntries(Object.entries(plugin.needs).map(([key, need]) => [key, this.get(need)]));
    try {
      const made = plugin.create({ ...given, config }, context);
      generation.instance = made;
      return unit.placement.wrap?.(made, context) ?? made;
    } catch (cause) {
      if (cause instanceof WiringError) throw cause;
      throw new WiringError([this.#fault('CreateFailed', unit, 'could not be created', cause)], { cause });
    }
  }

  #contextOf({ name }: Unit, { metrics, abort }: Generation): PluginContext {
    const { clock, log, tracer, dataDir } = this.#facilities;
    return {
      name,
      clock,
      metrics,
      signal: abort.signal,
      log: log.child({ plugin: name }),
      tracer: tracer(name),
      dataDir: join(dataDir, name),
    };
  }

  #fault(code: Fault['code'], unit: Unit, what: string, cause: unknown): Fault {
    const why = cause instanceof Error ? cause.message : String(cause);
    return {
      code,
      message: `${unit.name} ${what}: ${why}`,
      ...(unit.at && { at: unit.at }),
      ...(unit.path !== undefined && { path: unit.path }),
    };
  }
}
