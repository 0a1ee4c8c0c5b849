import { url as inspectorUrl } from 'node:inspector';
import { pathToFileURL } from 'node:url';
import type { Logger } from '@oarlock/primitives/logger';
import type { Placement } from '@oarlock/kernel/placement';
import { handleLateErrors } from './late-errors.ts';
import { pluginEndFile, reportPluginEnd, takePluginEnd } from './plugin-end.ts';
import { limitStop, type StopLimitOptions } from './stop-limit.ts';
import { startWatchdog, type StopWatchdog, type WatchedPlugin } from './watchdog/watchdog.ts';

/** Where a plugin was loaded from. */
interface Origin {
  /** The author's file, if there is one, and the files that it imports. */
  readonly source?: string;
  readonly inputs?: readonly string[];
  /** The specifier from which the plugin was imported. */
  readonly module?: string;
}

export interface GuardProcessOptions extends StopLimitOptions {
  readonly planned: readonly (Pick<Placement, 'limits'> & {
    readonly name: string;
    readonly origin?: Origin;
  })[];
  readonly log: Logger;
  /** File in which the watchdog names the plugin that ends the process. */
  readonly endFile?: string;
}

/**
 * Keeps the process alive when a plugin of another author has an error that nothing handles, and ends it when such a plugin blocks it or does not
 * stop. A process under a debugger is not ended: a breakpoint blocks it. Does nothing in a composition without such plugins. Returns a function that ends this.
 */
export function guardProcess({ planned, log, endFile, ...stopLimit }: GuardProcessOptions, watch = startWatchdog): StopWatchdog {
  const foreign = planned.filter(({ limits }) => limits !== undefined);
  if (foreign.length === 0) return () => {};
  const filesOf = new Map(
    foreign.map(({ name, origin: { source, inputs = [] } = {} }) => [name, source === undefined ? [] : [source, ...inputs]]),
  );
  const plugins = () => stopLimit.hosted().flatMap(({ name, health }) => (health ? [{ health, files: filesOf.get(name) ?? [] }] : []));
  const removeHandlers = handleLateErrors({ plugins, onUnattributed: (error) => endProcess(error, log) });
  limitStop(stopLimit);
  const stopWatchdog =
    inspectorUrl() === undefined ? watch(foreign.map(watchedPlugin), { ...(endFile !== undefined && { endFile }) }) : () => {};
  return async () => {
    removeHandlers();
    await stopWatchdog();
  };
}

/**
 * Guards the process that owns a data directory. Returns a function that reports the plugin that ended the previous process, if one did, to the plugins
 * that run now, and returns warnings for the user.
 */
export async function guardOwner(
  { dataDir, cleanups, ...options }: GuardProcessOptions & { readonly dataDir: string; readonly cleanups: StopWatchdog[] },
  watch = startWatchdog,
): Promise<() => readonly string[]> {
  const endFile = pluginEndFile(dataDir);
  const previous = await takePluginEnd(endFile);
  cleanups.push(guardProcess({ ...options, endFile }, watch));
  return () => (previous === undefined ? [] : [reportPluginEnd(previous, options.hosted())]);
}

function watchedPlugin({ name, origin: { source, inputs = [], module = '' } = {} }: { name: string; origin?: Origin }): WatchedPlugin {
  if (source !== undefined) return { name, modules: [source, ...inputs].map((file) => pathToFileURL(file).href) };
  if (!module.startsWith('file:')) return { name, modules: [] };
  // all modules of an installed package
  const [packageFolder] = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+\//.exec(module) ?? [];
  return { name, modules: [packageFolder ?? module] };
}

/** An error that belongs to no plugin leaves the process in an unknown state: it ends as Node.js would end it. */
function endProcess(error: unknown, log: Logger): void {
  log.error({ err: error }, 'an error was not handled; the process ends');
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exit(1);
}
