import { performance } from 'node:perf_hooks';
import type { PlacementSpec } from '@oarlock/cluster/cluster-schema';
import type { Planned } from '@oarlock/cluster/plan';
import { hosted } from '@oarlock/cluster/hosting/hosting';
import { withOwnInformers } from '@oarlock/cluster/hosting/own-informers';
import { PluginCompiler } from '@oarlock/cluster/plugin-compiler';
import { loadPluginFile } from '@oarlock/cluster/plugin-loader';
import { describeFault, WiringError, type Fault } from '@oarlock/kernel/errors';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { PluginHost } from '@oarlock/kernel/plugin-host';
import { FileWatch } from './file-watch.ts';

export interface ReloaderOptions {
  readonly host: PluginHost;
  readonly plugins: readonly Planned[];
  reloaded(name: string, ms: number): void;
  refused(name: string, message: string): void;
}

interface Kept {
  readonly planned: Planned;
  readonly source: string;
  readonly compiler: PluginCompiler;
  placement: PlacementSpec;
  inputs: ReadonlySet<string>;
  /** Reloads of one plugin happen one after another. */
  last: Promise<void>;
}

/** Puts a new version of a plugin in its place when a file of it is saved. A version that does not load leaves the one that runs. */
export class Reloader {
  readonly #options: ReloaderOptions;
  readonly #kept: readonly Kept[];
  readonly #watch: FileWatch;

  constructor(options: ReloaderOptions) {
    this.#options = options;
    this.#kept = options.plugins.flatMap((planned): Kept[] => {
      const { source, placement, inputs = [] } = planned.from ?? {};
      if (source === undefined || placement === undefined) return [];
      return [
        { planned, source, placement, compiler: new PluginCompiler(source), inputs: new Set([source, ...inputs]), last: Promise.resolve() },
      ];
    });
    this.#watch = new FileWatch((files) => {
      for (const kept of this.#kept) if ([...kept.inputs].some((input) => files.has(input))) void this.reload(kept);
    });
    for (const { inputs } of this.#kept) this.#watch.add(inputs);
  }

  get names(): readonly string[] {
    return this.#kept.map(({ planned }) => planned.name);
  }

  /** Plugins of a file, by name. */
  namesOf(source: string, name: string | undefined): readonly string[] {
    return this.#kept
      .filter((kept) => kept.source === source && (name === undefined || kept.planned.name === name))
      .map(({ planned }) => planned.name);
  }

  /** Compiles everything once, so that the first save is as quick as the others. */
  async warm(): Promise<void> {
    await Promise.all(this.#kept.map(({ compiler }) => compiler.compile().catch(() => {}))); // it is told when it is saved
  }

  /** Another config for a plugin, as its file says now. */
  async configure(name: string, placement: PlacementSpec): Promise<void> {
    const kept = this.#kept.find(({ planned }) => planned.name === name);
    if (kept === undefined || JSON.stringify(kept.placement) === JSON.stringify(placement)) return;
    await this.reload(kept, placement);
  }

  async close(): Promise<void> {
    this.#watch.close();
    await Promise.all(this.#kept.map(({ last }) => last));
    await Promise.all(this.#kept.map(({ compiler }) => compiler.dispose()));
  }

  reload(kept: Kept, placement: PlacementSpec = kept.placement): Promise<void> {
    const began = performance.now();
    kept.last = kept.last.then(() => this.#reload(kept, placement, began));
    return kept.last;
  }

  async #reload(kept: Kept, placement: PlacementSpec, began: number): Promise<void> {
    const { host, reloaded, refused } = this.#options;
    const { planned, source, compiler } = kept;
    const faults = (list: readonly Fault[]) => refused(planned.name, list.map(describeFault).join('\n'));
    const loaded = await loadPluginFile(compiler, source);
    if (loaded.inputs !== undefined) {
      kept.inputs = new Set([source, ...kept.inputs, ...loaded.inputs]);
      this.#watch.add(loaded.inputs);
    }
    if ('fault' in loaded) return faults([loaded.fault]);
    const next = hosted(loaded, placement, (key) => ({ path: `${planned.path}.${key}` }));
    if ('faults' in next) return faults(next.faults);
    const adapted = (planned.adapt ?? same)(withOwnInformers(next.plugin));
    try {
      const { retired } = await host.replace(planned.plugin.provides, planned.name, adapted, placement.config);
      kept.placement = placement;
      reloaded(planned.name, performance.now() - began);
      retired.catch((error: unknown) => refused(planned.name, `the version before did not stop cleanly: ${String(error)}`));
    } catch (error) {
      if (error instanceof WiringError) faults(error.faults);
      else refused(planned.name, error instanceof Error ? error.message : String(error));
    }
  }
}

const same = (plugin: Plugin): Plugin => plugin;
