import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { KubeletContext } from './node-context.ts';

const [retryFromMs, retryMostMs] = [1_000, 60_000];

/**
 * What pods have left on the disk that nobody knows any more: their kubelet was killed before it was through with them. What they have mounted may
 * need a driver that is not there yet, so what cannot be removed is tried again until it is gone.
 */
export class PodLeftovers {
  readonly #context: KubeletContext;
  readonly #known: (uid: string) => boolean;

  /** @param known whether somebody looks after the pod */
  constructor(context: KubeletContext, known: (uid: string) => boolean) {
    this.#context = context;
    this.#known = known;
  }

  /** Resolves when all of it was tried once; the rest is tried again in the background, until the context's signal aborts. */
  async sweep(): Promise<void> {
    const { volumes, paths } = this.#context;
    const logs = await this.#logs();
    const left = new Map([...(await volumes.leftovers()), ...logs.keys()].map((uid) => [uid, logs.get(uid) ?? []]));
    for (const uid of [...left.keys()]) if (this.#known(uid)) left.delete(uid);
    await this.#remove(left);
    if (left.size > 0) void this.#again(left, paths.pods);
  }

  async #again(left: Map<string, readonly string[]>, directory: string): Promise<void> {
    const { clock, signal, log } = this.#context;
    for (let wait = retryFromMs; left.size > 0; wait = Math.min(2 * wait, retryMostMs)) {
      await clock.sleep(wait, signal).catch(() => undefined);
      if (signal.aborted) return;
      await this.#remove(left);
    }
    log.info({ directory }, 'what pods left on the disk is removed');
  }

  /** Those that are gone afterwards are no longer in `left`. */
  async #remove(left: Map<string, readonly string[]>): Promise<void> {
    const { volumes, signal, log } = this.#context;
    for (const [uid, logs] of left) {
      try {
        await volumes.teardown(uid, { signal, cause: undefined });
        for (const path of logs) await rm(path, { recursive: true, force: true });
        left.delete(uid);
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ err: error, uid }, 'what a pod left on the disk could not be removed');
      }
    }
  }

  /** Directories of logs by uid. Elsewhere than below the kubelet's root they may be others', too. */
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
