import { describeConfigIssues } from './config-issue.ts';
import type { Logger } from '@oarlock/primitives/logger';
import type { Fault, SourcePosition } from './errors.ts';
import type { Lifecycle, Plugin, PluginContext } from './plugin.ts';
import type { PluginHealth } from './plugin-health.ts';

/** A plugin in a composition with its name, its config and their source positions. */
export interface Placement {
  readonly plugin: Plugin;
  /** Defaults to the plugin's id. */
  readonly name?: string;
  readonly config?: unknown;
  /** The position of the plugin's entry in the cluster file, used in faults only. */
  readonly at?: SourcePosition;
  readonly path?: string;
  readonly configPath?: string;
  /** Returns the position in the cluster file of the config value at `path`, or undefined if it is not known. */
  locateConfig?(path: readonly PropertyKey[]): SourcePosition | undefined;
  /** Wraps each instance that the plugin creates, for example in a guard. The host still calls `start` and `stop` on the instance itself. */
  decorate?(instance: Lifecycle, context: PluginContext, health: PluginHealth): object;
  /** Returns the log of the plugin, which also receives its late errors. */
  decorateLog?(log: Logger): Logger;
  /** Limits for a plugin that the host does not trust to be correct. Its late errors are attributed to it. */
  readonly limits?: LifecycleLimits;
  /** Returns the object that consumers hold instead of the plugin's first instance, so that `PluginHost.replace` can exchange the instance. */
  makeSwappable?(first: object, context: PluginContext): SwappableInstance;
}

/** Time limits in milliseconds of the methods that the host calls. */
export interface LifecycleLimits {
  readonly startMs: number;
  readonly stopMs: number;
}

/** An object that consumers hold while the host replaces the plugin instance that handles its calls. */
export interface SwappableInstance {
  readonly instance: object;
  /** Sends new calls to `next`. Resolves when no call to the previous instance is in flight. */
  swap(next: object): Promise<void>;
}

/** A plugin, its name in the composition, and the config to validate. */
export interface PluginConfig {
  readonly name: string;
  readonly plugin: Plugin;
  readonly config: unknown;
}

/**
 * Validates a plugin's config against the plugin's schema. Returns `config` with defaults applied if it is valid; otherwise returns `faults`,
 * one fault with its position in the cluster file for each error.
 */
export function checkConfig(
  { at, configPath, locateConfig: locate }: Pick<Placement, 'at' | 'configPath' | 'locateConfig'>,
  { name, plugin, config }: PluginConfig,
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
