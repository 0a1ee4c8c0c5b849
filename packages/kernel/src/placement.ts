import { describeConfigIssues } from './config-issue.ts';
import type { Fault, SourcePosition } from './errors.ts';
import type { Lifecycle, Plugin, PluginContext } from './plugin.ts';

/** A plugin in a composition with its name, its config and their source positions. */
export interface Placement {
  readonly plugin: Plugin;
  /** Defaults to the plugin's id. */
  readonly name?: string;
  readonly config?: unknown;
  /** The position of the placement in the cluster file, the path of its entry and the path of its config there. For faults only. */
  readonly at?: SourcePosition;
  readonly path?: string;
  readonly configPath?: string;
  /** Returns the position of a value of the config. */
  locateConfig?(path: readonly PropertyKey[]): SourcePosition | undefined;
  /** Wraps each instance that is created, for instance in a guard. `start` and `stop` are still called on the instance itself. */
  decorate?(instance: Lifecycle, context: PluginContext): object;
  /** Returns the object that consumers hold instead of the first instance, so that `PluginHost.replace` can exchange what is behind it. */
  makeSwappable?(first: object, context: PluginContext): SwappableInstance;
}

/** An object that consumers keep while the instance behind it is replaced. */
export interface SwappableInstance {
  readonly instance: object;
  /** Sends new calls to `next`. Resolves when no call to the previous instance is in flight. */
  swap(next: object): Promise<void>;
}

/** Parses a plugin's config. Returns it with defaults applied, or every error in it with its source position. */
export function checkConfig(
  { at, configPath, locateConfig: locate }: Pick<Placement, 'at' | 'configPath' | 'locateConfig'>,
  name: string,
  plugin: Plugin,
  config: unknown,
): { readonly config: unknown } | { readonly faults: readonly Fault[] } {
  // `jitless`: compiling the parser costs more than the single parse saves
  const parsed = plugin.config.safeParse(config ?? {}, { jitless: true });
  if (parsed.success) return { config: parsed.data };
  return {
    faults: describeConfigIssues(parsed.error, config, plugin.config).map((issue): Fault => {
      const position = locate?.(issue.sourcePath) ?? at;
      const path = [...(configPath === undefined ? [] : [configPath]), ...issue.path.map(String)].join('.');
      return {
        code: 'ConfigInvalid',
        message: `${name}: ${issue.message}`,
        ...(position && { at: position }),
        path,
        remedy: issue.remedy ?? `the README of ${plugin.id} describes its config`,
      };
    }),
  };
}
