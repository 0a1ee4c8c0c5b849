import type { Logger } from '@oarlock/primitives/logger';
import type { ContainerStats } from '@oarlock/spi/runtime';
import type { PodWorker } from '../pod/worker/pod-worker.ts';
import {
  evictionMessage,
  rankPodsForEviction,
  hasLocalStorageLimits,
  localStorageLimitExceeded,
  type EvictionCandidate,
} from './eviction-ranking.ts';
import { isCriticalPod } from '../pod-util/pods.ts';
import { podUsage } from '../stats/pod-usage.ts';
import type { EvictionMetrics } from '../metrics/eviction-metrics.ts';
import type { MetThreshold } from './thresholds.ts';

export interface EvictionManagerOptions {
  readonly log: Logger;
  readonly metrics: EvictionMetrics;
  readonly signal: AbortSignal;
  /** The maximum grace period of pods that a soft eviction threshold evicts. Seconds. */
  readonly maxGraceSeconds: number;
  pods(): Iterable<PodWorker>;
  stats(signal: AbortSignal): Promise<ReadonlyMap<string, ContainerStats>>;
  /** Frees disk space without evicting pods: removes unused images. */
  reclaimDisk(): Promise<void>;
  /** Returns the eviction thresholds that are still met after resources were reclaimed. */
  measureAgain(): Promise<readonly MetThreshold[]>;
  /** Records an event for the Node object. */
  recordNodeEvent(reason: string, message: string): void;
}

interface WorkerCandidate extends EvictionCandidate {
  readonly worker: PodWorker;
}

/**
 * Evicts pods before the node runs out of a resource, one at a time in the order of `rankPodsForEviction`. Also evicts pods that exceed their
 * limits of local storage.
 */
export class EvictionManager {
  readonly #options: EvictionManagerOptions;

  constructor(options: EvictionManagerOptions) {
    this.#options = options;
  }

  async synchronize(thresholds: readonly MetThreshold[]): Promise<void> {
    const { pods, signal } = this.#options;
    const limited: PodWorker[] = [];
    // there may be very many pods on hollow runtimes, and they use nothing: skip them first
    for (const worker of pods())
      if (worker.record.runtime?.hollow === false && worker.stage === 'syncing' && hasLocalStorageLimits(worker.record.pod))
        limited.push(worker);
    if (limited.length > 0) await this.#evictPodsOverLocalStorageLimits(limited);
    if (thresholds.length === 0) return;
    // an evicted pod that is still terminating may free enough
    for (const { evicted, stage } of pods()) if (evicted && stage === 'terminating') return;
    const left = await this.#reclaimNodeResources(thresholds);
    signal.throwIfAborted();
    const [worst] = left;
    if (worst === undefined) return;
    const active = [...pods()].filter(({ stage }) => stage === 'syncing');
    await this.#evictOne(active, worst);
  }

  /** Removes unused images if a disk threshold is met. Returns the eviction thresholds that are still met. */
  async #reclaimNodeResources(thresholds: readonly MetThreshold[]): Promise<readonly MetThreshold[]> {
    const { reclaimDisk, measureAgain, recordNodeEvent } = this.#options;
    const [worst] = thresholds;
    if (worst === undefined) return [];
    recordNodeEvent('EvictionThresholdMet', `Attempting to reclaim ${worst.resource}`);
    if (worst.resource !== 'ephemeral-storage' && worst.resource !== 'inodes') return thresholds;
    await reclaimDisk();
    return measureAgain();
  }

  async #evictOne(active: readonly PodWorker[], threshold: MetThreshold): Promise<void> {
    const { log, metrics, maxGraceSeconds, recordNodeEvent } = this.#options;
    const disk = threshold.resource === 'ephemeral-storage' || threshold.resource === 'inodes';
    const found = await this.#usage(
      active.filter(({ record }) => !isCriticalPod(record.pod)),
      disk,
    );
    const [first] = rankPodsForEviction(found, threshold.resource) as readonly WorkerCandidate[];
    if (first === undefined) {
      log.warn({ threshold }, 'an eviction threshold is met, but no pod can be evicted');
      return;
    }
    recordNodeEvent('EvictionThresholdMet', `Evicting pod ${first.worker.record.key} to reclaim ${threshold.resource}`);
    first.worker.evict(evictionMessage(threshold, first), threshold.soft ? maxGraceSeconds : 1);
    metrics.evicted(threshold.signal);
  }

  async #evictPodsOverLocalStorageLimits(limited: readonly PodWorker[]): Promise<void> {
    for (const found of await this.#usage(limited, true)) {
      const exceeded = localStorageLimitExceeded(found);
      if (exceeded === undefined) continue;
      found.worker.evict(exceeded.message, 1);
      this.#options.metrics.evicted(exceeded.signal);
    }
  }

  async #usage(workers: readonly PodWorker[], disk: boolean): Promise<readonly WorkerCandidate[]> {
    const { stats, signal } = this.#options;
    const all = await stats(signal);
    const found: WorkerCandidate[] = [];
    for (const worker of workers)
      found.push({ worker, pod: worker.record.pod, usage: await podUsage(worker.record, { stats: all, disk }) });
    return found;
  }
}
