import { constants } from 'node:os';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { openStorage, type OpenedStorage } from '@oarlock/cluster/composition/open-storage';
import type { Logger } from '@oarlock/primitives/logger';
import { CommandError } from './command-error.ts';
import { stderrLog } from './stderr-log.ts';

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export interface StoppedStorageOptions {
  readonly nodeName?: string;
  /** Default: prints warnings and errors. */
  readonly log?: Logger;
}

/**
 * Opens the storage of a cluster that is not running. Prints what the storage waits for. A signal that ends this process also ends the programs of the
 * storage: a member of etcd that remained would occupy the ports of the next one.
 */
export async function openStoppedStorage(
  file: ClusterFile,
  dataDir: string,
  { nodeName, log = stderrLog }: StoppedStorageOptions = {},
): Promise<OpenedStorage> {
  const stop = new AbortController();
  let opened: OpenedStorage | undefined;
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
    opened = await openStorage(file, dataDir, { nodeName, log, signal: stop.signal });
  } catch (error) {
    ignoreSignals();
    throw error;
  }
  const { driver, name, close } = opened;
  return { driver, name, close: () => close().finally(ignoreSignals) };
}
