import type { HostedPluginInfo } from '@oarlock/kernel/plugin-host';
import type { PlannedPlugin } from '../composition/plan.ts';
import { handleLateErrors } from './late-errors.ts';
import { startWatchdog } from './watchdog/watchdog.ts';

export interface GuardProcessOptions {
  readonly planned: readonly PlannedPlugin[];
  /** The plugins of the host; empty before the composition exists. */
  hosted(): readonly HostedPluginInfo[];
  onUnattributed(error: unknown): void;
}

/**
 * Keeps the process alive when a plugin of another author has an error that nothing handles, and ends it when such a plugin blocks it. Does nothing
 * in a composition without such plugins. Returns a function that ends this.
 */
export function guardProcess({ planned, hosted, onUnattributed }: GuardProcessOptions): () => void {
  const foreign = planned.filter(({ limits }) => limits !== undefined);
  if (foreign.length === 0) return () => {};
  const filesOf = new Map(foreign.map(({ name, origin: { source, inputs = [] } = {} }) => [name, source === undefined ? [] : [source, ...inputs]]));
  const plugins = () => hosted().flatMap(({ name, health }) => (health ? [{ health, files: filesOf.get(name) ?? [] }] : []));
  const removeHandlers = handleLateErrors({ plugins, onUnattributed });
  const stopWatchdog = startWatchdog();
  return () => {
    stopWatchdog();
    removeHandlers();
  };
}
