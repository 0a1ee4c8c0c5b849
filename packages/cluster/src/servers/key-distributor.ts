import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { StorageDriver } from '@oarlock/spi/storage';
import { openRecord, readRecord, recordKey, type ClusterRecord } from './cluster-record.ts';
import { writeKeyFiles } from './key-files.ts';
import type { SharedKeys } from './shared-keys.ts';

export interface KeyDistributorOptions {
  readonly storage: StorageDriver;
  readonly dataDir: string;
  readonly shared: SharedKeys;
  /** Makes the running server use the changed key files. */
  readonly reload: () => Promise<void>;
  /** Called when the server uses the keys of a generation. */
  readonly applied: (generation: number) => Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
}

const [minRetryDelayMs, maxRetryDelayMs] = [100, 5_000];

/** Watches the cluster record and applies changes of its keys to the data directory and to the running server. */
export class KeyDistributor {
  readonly #options: KeyDistributorOptions;
  readonly #stop = new AbortController();
  #generation: number;
  #running: Promise<void> = Promise.resolve();

  constructor(options: KeyDistributorOptions) {
    this.#options = options;
    this.#generation = options.shared.generation;
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the server is stopping'));
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stop;
    let wait = minRetryDelayMs;
    while (!signal.aborted) {
      try {
        await this.#follow(() => {
          wait = minRetryDelayMs;
        });
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ error: String(error), retryMs: wait }, 'the keys of the cluster could not be followed');
        await clock.sleep(wait, signal).catch(() => undefined); // aborted: the loop ends
        wait = Math.min(wait * 2, maxRetryDelayMs);
      }
    }
  }

  /** Applies the stored record, and then each change of it, until the watch ends. */
  async #follow(onProgress: () => void): Promise<void> {
    const { storage } = this.#options;
    const { signal } = this.#stop;
    const stored = await readRecord(storage);
    if (stored === undefined) throw new Error(`the cluster record ${recordKey} was deleted`);
    await this.#apply(stored.record);
    for await (const { changes } of storage.watch(recordKey, { after: stored.readRevision, signal })) {
      onProgress();
      if (changes.some((change) => change.type === 'put' && change.entry.key === recordKey)) {
        const changed = await readRecord(storage);
        if (changed !== undefined) await this.#apply(changed.record);
      }
    }
  }

  async #apply(record: ClusterRecord): Promise<void> {
    const { dataDir, shared, reload, applied, log } = this.#options;
    if (record.generation <= this.#generation) return;
    await writeKeyFiles(dataDir, openRecord(record, shared.clusterKey).files);
    await reload();
    this.#generation = record.generation;
    log.info({ generation: record.generation }, 'the keys of the cluster have changed');
    await applied(record.generation);
  }
}
