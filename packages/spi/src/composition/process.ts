import type { PluginContext } from '@oarlock/kernel/plugin';
import type { PluginHealthView } from '@oarlock/kernel/plugin-health';
import { slot } from '@oarlock/kernel/slot';
import type { Health, Role } from '../role/role.ts';

/** A plugin of the process, as the console shows it. */
export interface PlacedPlugin {
  /** The name in the composition. */
  readonly name: string;
  readonly id: string;
  /** The id of the slot that the plugin fills. */
  readonly slot: string;
  /** The ids of the slots that it consumes. */
  readonly needs: readonly string[];
  /** The config with its defaults. Secrets are redacted. */
  readonly config: unknown;
}

/** The plugins of one process, for metrics and health endpoints. Supplied by the composition; each call reads the current state. */
export interface ProcessView {
  /** Metrics registries of every plugin, for /metrics. */
  registries(): readonly PluginContext['metrics'][];
  /** Metrics of the certificates of the process, which `registries` contains too; for the /metrics of a kubelet. Absent if there are none. */
  readonly certificateMetrics?: PluginContext['metrics'];
  /** Metrics of the HTTP requests of the process to API servers, also in `registries`. Absent if it sends none. */
  readonly clientMetrics?: PluginContext['metrics'];
  /** Returns every role of the process, for /livez and /readyz. */
  roles(): readonly Role[];
  /** Returns the health of the plugins of other authors, for /readyz and `oarlock status`. */
  pluginHealth?(): readonly PluginHealthView[];
  /** Returns all plugins of the process in the order of the composition, for the console. */
  composition?(): readonly PlacedPlugin[];
  /** Returns whether the log can be written, for the health check `log`. Absent if the process has no log. */
  checkLog?(): Health;
  /** The data directory of the process, which contains its keys. Runtimes hide it from pods. Absent if the process has none. */
  readonly dataDir?: string;
}
export const Process = slot.one<ProcessView>('process/v1');
