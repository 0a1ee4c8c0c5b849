import { performance } from 'node:perf_hooks';
import { isDeepStrictEqual } from 'node:util';
import type { PlacementSpec } from '@oarlock/cluster/cluster-file/cluster-schema';
import type { PlannedPlugin } from '@oarlock/cluster/composition/plan';
import { frontOf } from '@oarlock/cluster/hosting/front';
import { hostPlugin } from '@oarlock/cluster/hosting/host-plugin';
import { withDedicatedInformers } from '@oarlock/cluster/identity/dedicated-informers';
import { PluginCompiler } from '@oarlock/cluster/plugins/plugin-compiler';
import { loadPluginFile } from '@oarlock/cluster/plugins/plugin-loader';
import { describeFault, WiringError, type Fault } from '@oarlock/kernel/errors';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { PluginHost } from '@oarlock/kernel/plugin-host';
import { errorText } from '@oarlock/primitives/error-text';
import { changedKeys } from './changed-keys.ts';
import { FileWatch } from './source/file-watch.ts';
import { readSources, sourceChanges, type SourceChange } from './source/source-changes.ts';

export interface ReloaderOptions {
  readonly host: PluginHost;
  readonly plugins: readonly PlannedPlugin[];
  /** True in a process without an API server. */
  readonly isRemote?: boolean;
  reloaded(name: string, ms: number): void;
  rejected(name: string, message: string): void;
  /** Called with the changed keys of a placement, such as `deadlineMs`, or of a plugin, `id` and `declares`, that apply only to a new process. */
  restartNeeded(name: string, keys: readonly string[]): void;
}

/** The duration of a reload in milliseconds, and the files in which the version differs from the previous one. */
export interface Reload {
  readonly ms: number;
  readonly changes: readonly SourceChange[];
}

/** A reload, or why the previous version keeps running, with file and line of each error. */
export type ReloadResult = Reload | { readonly error: string };

interface ReloadablePlugin {
  readonly planned: PlannedPlugin;
  readonly source: string;
  readonly compiler: PluginCompiler;
  placement: PlacementSpec;
  /** What only a new process applies. */
  fixed: Pick<Plugin, 'id' | 'declares'>;
  inputs: ReadonlySet<string>;
  /** The source of the running version. */
  sources: Promise<ReadonlyMap<string, string>>;
  latest?: Reload;
  /** The pending reload of the plugin. Reloads of one plugin run one after another. */
  last: Promise<unknown>;
}

const isReplaceable = ({ planned }: ReloadablePlugin): boolean => frontOf(planned.plugin.provides) !== undefined;

/** Replaces a plugin by a new version when one of its files is saved. If the new version does not load, the running version stays. */
export class Reloader {
  readonly #options: ReloaderOptions;
  readonly #plugins: readonly ReloadablePlugin[];
  readonly #watch: FileWatch;

  constructor(options: ReloaderOptions) {
    this.#options = options;
    this.#plugins = options.plugins.flatMap((planned): ReloadablePlugin[] => {
      const { source, placement, inputs = [] } = planned.origin ?? {};
      if (source === undefined || placement === undefined) return [];
      const files = new Set([source, ...inputs]);
      return [
        {
          planned,
          source,
          placement,
          fixed: planned.plugin,
          compiler: new PluginCompiler(source),
          inputs: files,
          sources: readSources(files),
          last: Promise.resolve(),
        },
      ];
    });
    this.#watch = new FileWatch((files) => {
      for (const target of this.#plugins) if ([...target.inputs].some((input) => files.has(input))) void this.reload(target);
    });
    for (const { inputs } of this.#plugins) this.#watch.add(inputs);
  }

  get names(): readonly string[] {
    return this.#plugins.filter(isReplaceable).map(({ planned }) => planned.name);
  }

  /** The latest reload of each plugin that was reloaded. */
  get latest(): ReadonlyMap<string, Reload> {
    return new Map(this.#plugins.flatMap(({ planned, latest }) => (latest === undefined ? [] : [[planned.name, latest] as const])));
  }

  /** The names of the plugins whose changes need a restart, because their slot cannot replace a running plugin. */
  get fixedNames(): readonly string[] {
    return this.#plugins.filter((target) => !isReplaceable(target)).map(({ planned }) => planned.name);
  }

  /** Returns the names of the plugins of a source file, or only `name` if the source file has a plugin of this name. */
  namesOf(source: string, name: string | undefined): readonly string[] {
    return this.#plugins
      .filter((target) => target.source === source && (name === undefined || target.planned.name === name))
      .map(({ planned }) => planned.name);
  }

  /** Reloads a plugin although its files have not changed. Returns undefined if no plugin has the name. */
  reloadByName(name: string): Promise<ReloadResult> | undefined {
    const target = this.#plugins.find(({ planned }) => planned.name === name);
    return target && this.reload(target);
  }

  /** Compiles all plugins once, so that the first reload takes no longer than later reloads. */
  async warm(): Promise<void> {
    await Promise.all(this.#plugins.map(({ compiler }) => compiler.compile().catch(() => {}))); // the reload after a save reports errors
  }

  /** Reloads a plugin if its config in the cluster file has changed. Reports other changes of its placement, which need a restart. */
  async configure(name: string, placement: PlacementSpec): Promise<void> {
    const target = this.#plugins.find(({ planned }) => planned.name === name);
    if (target === undefined) return;
    const keys = changedKeys(target.placement, placement);
    const others = keys.filter((key) => key !== 'config');
    if (others.length > 0) this.#options.restartNeeded(name, others);
    if (keys.includes('config')) await this.reload(target, { ...target.placement, config: placement.config });
  }

  async close(): Promise<void> {
    this.#watch.close();
    await Promise.all(this.#plugins.map(({ last }) => last));
    await Promise.all(this.#plugins.map(({ compiler }) => compiler.dispose()));
  }

  reload(target: ReloadablePlugin, placement: PlacementSpec = target.placement): Promise<ReloadResult> {
    const startedAt = performance.now();
    const result = target.last.then(() => this.#reload(target, placement, startedAt));
    target.last = result;
    return result;
  }

  async #reload(target: ReloadablePlugin, placement: PlacementSpec, startedAt: number): Promise<ReloadResult> {
    const { host, reloaded, rejected, restartNeeded, isRemote } = this.#options;
    const { planned, source, compiler } = target;
    const reject = (error: string): ReloadResult => {
      rejected(planned.name, error);
      return { error };
    };
    const rejectFaults = (list: readonly Fault[]) => reject(list.map(describeFault).join('\n'));
    const loaded = await loadPluginFile(compiler, { file: source });
    if (loaded.inputs !== undefined) {
      target.inputs = new Set([source, ...target.inputs, ...loaded.inputs]);
      this.#watch.add(loaded.inputs);
    }
    if ('fault' in loaded) return rejectFaults([loaded.fault]);
    const [before, sources] = await Promise.all([target.sources, readSources(target.inputs)]);
    const next = hostPlugin(loaded, placement, (key) => ({ path: `${planned.path}.${key}` }));
    if ('faults' in next) return rejectFaults(next.faults);
    const adapted = (planned.adapt ?? unchanged)(withDedicatedInformers(next.plugin, isRemote));
    try {
      const { retired } = await host.replace(planned.plugin.provides, { name: planned.name, plugin: adapted, config: placement.config });
      target.placement = placement;
      const changed = (['id', 'declares'] as const).filter((key) => !isDeepStrictEqual(adapted[key], target.fixed[key]));
      if (changed.length > 0) restartNeeded(planned.name, changed);
      target.fixed = adapted;
      const ms = performance.now() - startedAt;
      target.sources = Promise.resolve(sources);
      target.latest = { ms, changes: sourceChanges(before, sources) };
      reloaded(planned.name, ms);
      retired.catch((error: unknown) => rejected(planned.name, `the previous version did not stop cleanly: ${String(error)}`));
      return target.latest;
    } catch (error) {
      return error instanceof WiringError ? rejectFaults(error.faults) : reject(errorText(error));
    }
  }
}

const unchanged = (plugin: Plugin): Plugin => plugin;
