import type { HostedPluginInfo } from '@oarlock/kernel/plugin-host';

/** Time in milliseconds from a stop signal to the end of the process, whatever a plugin does, if requests drain for the default time. */
const stopLimitMs = 9_500;
const defaultDrainMs = 5_000;

export interface StopLimitOptions {
  readonly signal: AbortSignal;
  /** `settings.apiserver.drainSeconds`. */
  readonly drainSeconds: unknown;
  /** The plugins of the host; empty before the composition exists. */
  hosted(): readonly HostedPluginInfo[];
}

/**
 * Ends the process if it still runs some seconds after the signal has aborted: acknowledged writes are on disk, and the next start cleans up as
 * after a crash. Names the plugin that did not stop.
 */
export function limitStop({ signal, drainSeconds, hosted }: StopLimitOptions): void {
  const drainMs = typeof drainSeconds === 'number' ? drainSeconds * 1000 : defaultDrainMs;
  const limitMs = stopLimitMs + Math.max(0, drainMs - defaultDrainMs);
  const end = () => {
    const stopping = hosted().findLast(({ started }) => started)?.name;
    const who = stopping === undefined ? 'the start was not canceled' : `${stopping} is still stopping`;
    process.stderr.write(`The process ends now: it did not stop within ${limitMs / 1000} s, ${who}.\n`);
    process.exit(1);
  };
  signal.addEventListener('abort', () => setTimeout(end, limitMs).unref(), { once: true });
}
