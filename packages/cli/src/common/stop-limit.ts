import type { ClusterFile } from '@oarlock/cluster/config/cluster-file';
import type { RunningCluster } from '@oarlock/cluster/run';
import { exitCodes } from './command-error.ts';

/** Time in milliseconds from a stop signal to the end of the process, whatever a plugin does, if requests drain for the default time. */
const stopLimitMs = 9_000;
const defaultDrainMs = 5_000;

/**
 * Ends the process if it still runs some seconds after the signal has aborted: acknowledged writes are on disk, and the next start cleans up as
 * after a crash. Names the plugin that did not stop.
 */
export function limitStop(stop: AbortSignal, file: ClusterFile, running: () => RunningCluster | undefined): void {
  const { drainSeconds } = file.spec.settings.apiserver;
  const drainMs = typeof drainSeconds === 'number' ? drainSeconds * 1000 : defaultDrainMs;
  const limitMs = stopLimitMs + Math.max(0, drainMs - defaultDrainMs);
  stop.addEventListener(
    'abort',
    () => {
      setTimeout(() => {
        const stopping = running()?.composition.host.plugins.findLast(({ started }) => started)?.name;
        const who = stopping === undefined ? 'the start was not canceled' : `${stopping} is still stopping`;
        process.stderr.write(`The process ends now: it did not stop within ${limitMs / 1000} s, ${who}.\n`);
        process.exit(exitCodes.failed);
      }, limitMs).unref();
    },
    { once: true },
  );
}
