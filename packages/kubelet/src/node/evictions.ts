import type { Logger } from '@oarlock/kernel/logger';
import type { ContainerStats } from '@oarlock/spi/runtime';
import type { PodWorker } from '../pod-worker.ts';
import { evictionMessage, evictionOrder, isCritical, limitsDisk, overOwnLimits, type Candidate } from './eviction-order.ts';
import { podUsage } from './pod-usage.ts';
import type { Shortage } from './thresholds.ts';

export interface EvictionsOptions {
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** The longest grace of a pod that a soft threshold evicts, in seconds. */
  readonly maxGraceSeconds: number;
  pods(): Iterable<PodWorker>;
  stats(signal: AbortSignal): Promise<ReadonlyMap<string, ContainerStats>>;
  /** Frees disk that no pod needs. */
  reclaimDisk(): Promise<void>;
  /** What the node is short of now: asked again after something was freed. */
  lookAgain(): Promise<readonly Shortage[]>;
  /** An event about the node. */
  tell(reason: string, message: string): void;
}

interface Found extends Candidate {
  readonly worker: PodWorker;
}

/** Stops pods before the node has nothing left, one at a time and the least deserving first, and pods that take more disk than they may. */
export class Evictions {
  readonly #options: EvictionsOptions;

  constructor(options: EvictionsOptions) {
    this.#options = options;
  }

  async look(shortages: readonly Shortage[]): Promise<void> {
    const { pods, signal } = this.#options;
    const limited: PodWorker[] = [];
    // pods that only seem to run may be very many, and use nothing: they are passed by first
    for (const worker of pods())
      if (worker.record.runtime?.hollow === false && worker.stage === 'syncing' && limitsDisk(worker.record.pod)) limited.push(worker);
    if (limited.length > 0) await this.#enforceLimits(limited);
    if (shortages.length === 0) return;
    // what is being stopped is not free yet, and may be enough
    for (const { evicted, stage } of pods()) if (evicted && stage === 'terminating') return;
    const left = await this.#reclaim(shortages);
    signal.throwIfAborted();
    const [worst] = left;
    if (worst === undefined) return;
    const active = [...pods()].filter(({ stage }) => stage === 'syncing');
    await this.#evictOne(active, worst);
  }

  /** Shortages that are left when what nobody needs is gone. */
  async #reclaim(shortages: readonly Shortage[]): Promise<readonly Shortage[]> {
    const { reclaimDisk, lookAgain, tell } = this.#options;
    const [worst] = shortages;
    if (worst === undefined) return [];
    tell('EvictionThresholdMet', `Attempting to reclaim ${worst.resource}`);
    if (worst.resource !== 'ephemeral-storage' && worst.resource !== 'inodes') return shortages;
    await reclaimDisk();
    return lookAgain();
  }

  async #evictOne(active: readonly PodWorker[], shortage: Shortage): Promise<void> {
    const { log, maxGraceSeconds, tell } = this.#options;
    const disk = shortage.resource === 'ephemeral-storage' || shortage.resource === 'inodes';
    const found = await this.#usage(
      active.filter(({ record }) => !isCritical(record.pod)),
      disk,
    );
    const [first] = evictionOrder(found, shortage.resource) as readonly Found[];
    if (first === undefined) {
      log.warn({ shortage }, 'the node is short of something, and no pod can be evicted');
      return;
    }
    tell('EvictionThresholdMet', `Evicting pod ${first.worker.record.key} to reclaim ${shortage.resource}`);
    first.worker.evict(evictionMessage(shortage, first), shortage.soft ? maxGraceSeconds : 1);
  }

  async #enforceLimits(limited: readonly PodWorker[]): Promise<void> {
    for (const found of await this.#usage(limited, true)) {
      const message = overOwnLimits(found);
      if (message !== undefined) found.worker.evict(message, 1);
    }
  }

  async #usage(workers: readonly PodWorker[], disk: boolean): Promise<readonly Found[]> {
    const { stats, signal } = this.#options;
    const all = await stats(signal);
    const found: Found[] = [];
    for (const worker of workers) found.push({ worker, pod: worker.record.pod, usage: await podUsage(worker.record, all, disk) });
    return found;
  }
}
