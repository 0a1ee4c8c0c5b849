import { constants } from 'node:os';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { openStorage, type OpenedStorage } from '@oarlock/cluster/composition/open-storage';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { CommandError } from './command-error.ts';
import { stderrLog } from './stderr-log.ts';

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export interface StoppedStorageOptions {
  readonly nodeName?: string;
  /** Default: prints warnings and errors. */
  readonly log?: Logger;
  /** Time that the start of the storage may take. Default: without a limit. */
  readonly timeoutSeconds?: number;
  readonly clock?: Pick<Clock, 'after'>;
}

/**
 * Opens the storage of a cluster that is not running. Prints what the storage waits for. A signal that ends this process also ends the programs of the
 * storage: a member of etcd that remained would occupy the ports of the next one.
 * @throws CommandError with the latest warning of the storage if it has not started in time
 */
export async function openStoppedStorage(
  file: ClusterFile,
  dataDir: string,
  { nodeName, log = stderrLog, timeoutSeconds, clock = systemClock }: StoppedStorageOptions = {},
): Promise<OpenedStorage> {
  const stop = new AbortController();
  let opened: OpenedStorage | undefined;
  let warning = '';
  const keepWarning = (fields: Record<string, unknown>, message: string) => {
    warning = `: ${message}`;
    log.warn(fields, message);
  };
  const storageLog: Logger = { ...log, warn: keepWarning, child: () => storageLog };
  const timeout = new Error('the storage did not start in time');
  const timer = timeoutSeconds === undefined ? undefined : clock.after(timeoutSeconds * 1000, () => stop.abort(timeout));
  const interrupt = (signal: (typeof signals)[number]) => {
    const exitCode = 128 + constants.signals[signal];
    stop.abort(new CommandError(`interrupted by ${signal}`, exitCode));
    void opened?.close().finally(() => process.exit(exitCode));
  };
  const ignoreSignals = () => {
    for (const signal of signals) process.off(signal, interrupt);
  };
  for (const signal of signals) process.on(signal, interrupt);
  try {
    opened = await openStorage(file, dataDir, { nodeName, log: storageLog, signal: stop.signal });
  } catch (error) {
    ignoreSignals();
    if (stop.signal.reason !== timeout) throw error;
    throw new CommandError(`the storage of ${dataDir} did not start within ${timeoutSeconds} s${warning}`, undefined, { cause: error });
  } finally {
    timer?.cancel();
  }
  const { driver, name, close } = opened;
  return { driver, name, close: () => close().finally(ignoreSignals) };
}
