import { configIssues } from './config-issue.ts';
import type { Fault, SourcePosition } from './errors.ts';
import type { Lifecycle, Plugin, PluginContext } from './plugin.ts';

/** A plugin in a composition, and what was written about it. */
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
  /** Stands before each instance that is made, such as a guard or an observer. The lifecycle stays with the instance. */
  wrap?(made: Lifecycle, context: PluginContext): object;
  /** What others hold instead of the first instance, so that `replace` can put another in its place. */
  front?(first: object, context: PluginContext): Front;
}

/** An instance that others hold on to while what is behind it is replaced. */
export interface Front {
  readonly instance: object;
  /** Sends new calls to `next`. Resolves when the one before is not used any more. */
  swap(next: object): Promise<void>;
}

/** The config of a plugin with its defaults, or everything that is wrong with it, each with where it was written. */
export function checkConfig(
  { at, configPath, locate }: Pick<Placement, 'at' | 'configPath' | 'locate'>,
  name: string,
  plugin: Plugin,
  config: unknown,
): { readonly config: unknown } | { readonly faults: readonly Fault[] } {
  const parsed = plugin.config.safeParse(config ?? {}, { jitless: true }); // what is parsed once is not worth compiling
  if (parsed.success) return { config: parsed.data };
  return {
    faults: configIssues(parsed.error, config, plugin.config).map((issue): Fault => {
      const spot = locate?.(issue.locate) ?? at;
      const keys = [...(configPath === undefined ? [] : [configPath]), ...issue.path.map(String)].join('.');
      return {
        code: 'ConfigInvalid',
        message: `${name}: ${issue.message}`,
        ...(spot && { at: spot }),
        path: keys,
        remedy: issue.remedy ?? `the README of ${plugin.id} describes its config`,
      };
    }),
  };
}
