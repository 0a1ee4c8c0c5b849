import { url as inspectorUrl } from 'node:inspector';
import type { Logger } from '@oarlock/primitives/logger';
import type { Placement } from '@oarlock/kernel/placement';
import { handleLateErrors } from './late-errors.ts';
import { limitStop, type StopLimitOptions } from './stop-limit.ts';
import { startWatchdog } from './watchdog/watchdog.ts';

export interface GuardProcessOptions extends StopLimitOptions {
  readonly planned: readonly (Pick<Placement, 'limits'> & {
    readonly name: string;
    readonly origin?: { readonly source?: string; readonly inputs?: readonly string[] };
  })[];
  readonly log: Logger;
}

/**
 * Keeps the process alive when a plugin of another author has an error that nothing handles, and ends it when such a plugin blocks it or does not
 * stop. A process under a debugger is not ended: a breakpoint blocks it. Does nothing in a composition without such plugins. Returns a function that ends this.
 */
export function guardProcess({ planned, log, ...stopLimit }: GuardProcessOptions, watch = startWatchdog): () => void {
  const foreign = planned.filter(({ limits }) => limits !== undefined);
  if (foreign.length === 0) return () => {};
  const filesOf = new Map(
    foreign.map(({ name, origin: { source, inputs = [] } = {} }) => [name, source === undefined ? [] : [source, ...inputs]]),
  );
  const plugins = () => stopLimit.hosted().flatMap(({ name, health }) => (health ? [{ health, files: filesOf.get(name) ?? [] }] : []));
  const removeHandlers = handleLateErrors({ plugins, onUnattributed: (error) => endProcess(error, log) });
  limitStop(stopLimit);
  const stopWatchdog = inspectorUrl() === undefined ? watch() : () => {};
  return () => {
    stopWatchdog();
    removeHandlers();
  };
}

/** An error that belongs to no plugin leaves the process in an unknown state: it ends as Node.js would end it. */
function endProcess(error: unknown, log: Logger): void {
  log.error({ err: error }, 'an error was not handled; the process ends');
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exit(1);
}
