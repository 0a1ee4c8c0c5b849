import { join } from 'node:path';
import type { Tracer } from '@opentelemetry/api';
import { Registry } from 'prom-client';
import type { Clock } from './clock.ts';
import { systemClock } from './clock.ts';
import { configIssues } from './config-issue.ts';
import { Container } from './container.ts';
import { WiringError, type Fault, type SourcePosition } from './errors.ts';
import { checkGraph, type PlacedNode } from './graph.ts';
import { silentLogger, type Logger } from './logger.ts';
import { namePlugin, slotOf, type AnySlot, type Lifecycle, type Plugin, type PluginContext } from './plugin.ts';
import type { Filled, Slot } from './slot.ts';
import { noTracer } from './tracing.ts';

export interface Placement {
  readonly plugin: Plugin;
  /** Defaults to the plugin's id. */
  readonly name?: string;
  readonly config?: unknown;
  /** Where the placement was written, and where each part of its config was: used in faults only. */
  readonly at?: SourcePosition;
  readonly path?: string;
  readonly configPath?: string;
  locate?(path: readonly PropertyKey[]): SourcePosition | undefined;
}

/** What the host hands on to every plugin. Tests give a fake clock and leave out the rest. */
export interface Facilities {
  readonly clock?: Clock;
  readonly log?: Logger;
  readonly tracer?: (plugin: string) => Tracer;
  readonly dataDir?: string;
}

interface Unit extends PlacedNode {
  readonly config: unknown;
  readonly abort: AbortController;
  readonly metrics: Registry;
  instance?: Lifecycle;
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

  constructor({ clock = systemClock, log = silentLogger, tracer = () => noTracer, dataDir = '.oarlock' }: Facilities = {}) {
    this.#facilities = { clock, log, tracer, dataDir };
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
    const parsed = plugin.config.safeParse(placement.config ?? {});
    if (!parsed.success) {
      for (const issue of configIssues(parsed.error, placement.config, plugin.config)) {
        const spot = placement.locate?.(issue.locate) ?? at;
        const keys = [...(placement.configPath === undefined ? [] : [placement.configPath]), ...issue.path.map(String)].join('.');
        this.#faults.push({
          code: 'ConfigInvalid',
          message: `${name}: ${issue.message}`,
          ...(spot && { at: spot }),
          path: keys,
          remedy: issue.remedy ?? `the README of ${plugin.id} describes its config`,
        });
      }
      this.#refused.push({ name, plugin, ...(at && { at }), ...(path !== undefined && { path }) });
      return this;
    }
    const unit: Unit = {
      name,
      plugin,
      config: parsed.data,
      abort: new AbortController(),
      metrics: new Registry(),
      ...(at && { at }),
      ...(path !== undefined && { path }),
    };
    this.#units.push(unit);
    this.#container.factory(plugin.provides.token, () => {
      const instance = this.#create(unit);
      return plugin.provides.arity === 'named' ? { name, instance } : instance;
    });
    return this;
  }

  /** Everything that is wrong, found without running anything. */
  check(): readonly Fault[] {
    return [...this.#faults, ...checkGraph([...this.#units, ...this.#refused], this.#provided)];
  }

  /** Asks each plugin whether this machine has what it needs. */
  async probe(): Promise<readonly Fault[]> {
    const answers = await Promise.all(
      this.#units.map(async (unit): Promise<Fault | undefined> => {
        const answer = await unit.plugin.probe?.(unit.config);
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
        await unit.instance?.start?.(signal);
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
    const faults: Fault[] = [];
    for (const unit of this.#started.reverse()) {
      unit.abort.abort();
      try {
        await unit.instance?.stop?.();
      } catch (error) {
        faults.push(this.#fault('StopFailed', unit, 'did not stop cleanly', error));
      }
    }
    this.#started = [];
    if (faults.length > 0) throw new WiringError(faults);
  }

  get units(): readonly UnitInfo[] {
    return this.#units.map((unit) => ({
      name: unit.name,
      plugin: unit.plugin,
      started: this.#started.includes(unit),
      metrics: unit.metrics,
    }));
  }

  #create(unit: Unit): Lifecycle {
    const { clock, log, tracer, dataDir } = this.#facilities;
    const given = Object.fromEntries(Object.entries(unit.plugin.needs).map(([key, need]) => [key, this.get(need)]));
    const context: PluginContext = {
      name: unit.name,
      clock,
      metrics: unit.metrics,
      signal: unit.abort.signal,
      log: log.child({ plugin: unit.name }),
      tracer: tracer(unit.name),
      dataDir: join(dataDir, unit.name),
    };
    try {
      unit.instance = unit.plugin.create({ ...given, config: unit.config }, context);
    } catch (cause) {
      if (cause instanceof WiringError) throw cause;
      throw new WiringError([this.#fault('CreateFailed', unit, 'could not be created', cause)], { cause });
    }
    namePlugin(unit.instance, unit.name);
    this.#created.push(unit);
    return unit.instance;
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
