import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ProcessContext, VolumeServices } from '../pod/node-context.ts';

const [retryFromMs, retryMostMs] = [1_000, 60_000];

export type OrphanedPodDirsContext = Pick<ProcessContext, 'clock' | 'log' | 'signal' | 'metrics'> &
  Pick<VolumeServices, 'paths' | 'volumeManager'>;

/**
 * Removes the directories of pods without a worker, which a previous kubelet did not clean up. Failed removals are retried, because a volume may
 * need a driver that is not available yet.
 */
export class OrphanedPodDirs {
  readonly #context: OrphanedPodDirsContext;
  readonly #known: (uid: string) => boolean;

  /** @param known returns true if a worker manages the pod */
  constructor(context: OrphanedPodDirsContext, known: (uid: string) => boolean) {
    this.#context = context;
    this.#known = known;
  }

  /** Resolves when each removal was tried once. Failed removals are retried in the background until the context's signal aborts. */
  async cleanup(): Promise<void> {
    const { volumeManager: volumes, paths } = this.#context;
    const logs = await this.#logs();
    const left = new Map([...(await volumes.orphanedPodUids()), ...logs.keys()].map((uid) => [uid, logs.get(uid) ?? []]));
    for (const uid of [...left.keys()]) if (this.#known(uid)) left.delete(uid);
    await this.#remove(left);
    if (left.size > 0) void this.#retry(left, paths.pods);
  }

  async #retry(left: Map<string, readonly string[]>, directory: string): Promise<void> {
    const { clock, signal, log } = this.#context;
    for (let wait = retryFromMs; left.size > 0; wait = Math.min(2 * wait, retryMostMs)) {
      await clock.sleep(wait, signal).catch(() => undefined);
      if (signal.aborted) return;
      await this.#remove(left);
    }
    log.info({ directory }, 'the directories of orphaned pods are removed');
  }

  /** Removes the pods' directories and deletes each removed pod from `left`. */
  async #remove(left: Map<string, readonly string[]>): Promise<void> {
    const { volumeManager: volumes, signal, log, metrics } = this.#context;
    const known = left.size;
    for (const [uid, logs] of left) {
      try {
        await volumes.teardown(uid, { signal, spanContext: undefined });
        for (const path of logs) await rm(path, { recursive: true, force: true });
        left.delete(uid);
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ err: error, uid }, 'removing the directories of an orphaned pod failed');
      }
    }
    metrics.storage.orphansSwept(known - left.size, left.size);
  }

  /** Returns the pods' log directories, keyed by pod uid. Skips directories outside the kubelet's root directory, which other kubelets may own. */
  async #logs(): Promise<ReadonlyMap<string, readonly string[]>> {
    const { root, logs } = this.#context.paths;
    const found = new Map<string, string[]>();
    if (!logs.startsWith(`${root}/`)) return found;
    const names = await readdir(logs).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return [];
    });
    for (const name of names) {
      const uid = /^[^_]+_[^_]+_(.+)$/.exec(name)?.[1];
      if (uid !== undefined) found.set(uid, [...(found.get(uid) ?? []), join(logs, name)]);
    }
    return found;
  }
}
