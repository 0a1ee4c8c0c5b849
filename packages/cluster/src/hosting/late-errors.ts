import { failedPlugin, lastEnteredPlugin, runningPlugin, type PluginHealth } from '@oarlock/kernel/plugin-health';

/** A plugin whose late errors can be attributed: its health, and the files that its stack traces name. */
export interface AttributablePlugin {
  readonly health: PluginHealth;
  readonly files: readonly string[];
}

export interface LateErrorOptions {
  plugins(): readonly AttributablePlugin[];
  /** Called with an error that belongs to no plugin: the state of the process is unknown. */
  onUnattributed(error: unknown): void;
}

/**
 * Returns the plugin of an error that no call returned: the plugin whose call failed with it, otherwise the plugin whose file is the first in the
 * stack, otherwise the plugin that started the asynchronous operation. Consumers may continue in an operation that a plugin started, therefore the
 * operation is checked last.
 */
export function attribute(error: unknown, plugins: readonly AttributablePlugin[]): PluginHealth | undefined {
  const failed = failedPlugin(error);
  if (failed !== undefined) return failed;
  const running = runningPlugin();
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  for (const line of stack.split('\n').slice(1)) {
    const owners = plugins.filter(({ files }) => files.some((file) => line.includes(file))).map(({ health }) => health);
    if (running !== undefined && owners.includes(running)) return running;
    if (owners.length === 1) return owners[0];
    // several plugins share the file
    const last = lastEnteredPlugin();
    if (running === undefined && owners.length > 1) return last !== undefined && owners.includes(last) ? last : owners[0];
  }
  return running;
}

/**
 * Handles unhandled rejections and uncaught exceptions of the process: those of a plugin only make that plugin unhealthy. Returns a function that
 * removes the handlers.
 */
export function handleLateErrors({ plugins, onUnattributed }: LateErrorOptions): () => void {
  const handle = (error: unknown): void => {
    const health = attribute(error, plugins());
    if (health === undefined) onUnattributed(error);
    else health.report('late', error);
  };
  process.on('unhandledRejection', handle);
  process.on('uncaughtException', handle);
  return () => {
    process.off('unhandledRejection', handle);
    process.off('uncaughtException', handle);
  };
}
