import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { ContainerStats } from '@oarlock/spi/runtime';
import type { KubeletConfig } from '../config/kubelet-config.ts';
import type { PodRuntime } from '../pod/node-context.ts';
import { EvictionManager } from '../eviction/eviction-manager.ts';
import { ImageGCManager } from '../images/image-gc-manager.ts';
import type { ImagePullManager } from '../images/pull-manager/image-pull-manager.ts';
import type { NodeAgent } from './node-agent.ts';
import type { NodeStateManager } from './node-state-manager.ts';
import type { EvictionMetrics } from '../metrics/eviction-metrics.ts';
import type { MetThreshold } from '../eviction/thresholds.ts';

export interface HousekeepingOptions {
  readonly config: KubeletConfig;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: EvictionMetrics;
  readonly signal: AbortSignal;
  readonly nodeState: NodeStateManager;
  readonly runtimes: readonly PodRuntime[];
  readonly imagePullManager: ImagePullManager | undefined;
  readonly agents: ReadonlyMap<string, NodeAgent>;
}

/** Runs image garbage collection and evictions for all nodes of the process. */
export class Housekeeping {
  readonly #options: HousekeepingOptions;
  readonly #evictionManager: EvictionManager;
  readonly #imageGCManagers: readonly ImageGCManager[];
  #timer: Timer | undefined;

  constructor(options: HousekeepingOptions) {
    const { config, clock, log, metrics, signal, nodeState, runtimes, agents } = options;
    this.#options = options;
    const nodeEventRecorder = (type: 'Normal' | 'Warning') => (reason: string, message: string) => {
      for (const agent of agents.values()) agent.recordNodeEvent(type, reason, message);
    };
    const { highPercent, lowPercent, minimumAgeSeconds, maximumAgeSeconds } = config.imageGc;
    this.#imageGCManagers = runtimes
      .filter(({ pleg }) => pleg.driver.traits.images && !pleg.simulated)
      .map(
        ({ pleg }) =>
          new ImageGCManager({
            driver: pleg.driver,
            clock,
            log,
            highThresholdPercent: highPercent,
            lowThresholdPercent: lowPercent,
            minAgeMs: minimumAgeSeconds * 1000,
            maxAgeMs: maximumAgeSeconds * 1000,
            imagesRemoved: () => nodeState.imagesChanged(),
            recordNodeEvent: nodeEventRecorder('Warning'),
          }),
      );
    this.#evictionManager = new EvictionManager({
      log,
      metrics,
      signal,
      maxGraceSeconds: Math.max(1, config.evictionMaxPodGraceSeconds),
      *pods() {
        for (const agent of agents.values()) yield* agent.pods.workers;
      },
      stats: (call) => this.#stats(call),
      reclaimDisk: async () => {
        for (const collector of this.#imageGCManagers) await collector.deleteUnusedImages(signal);
        await this.#options.imagePullManager?.pruneUnknownRecords(signal);
      },
      measureAgain: () => nodeState.checkThresholds(),
      recordNodeEvent: nodeEventRecorder('Warning'),
    });
  }

  start(): void {
    if (this.#imageGCManagers.length > 0) this.#scheduleImageGC();
  }
  stop(): void {
    this.#timer?.cancel();
  }

  /** Evicts pods because of eviction thresholds that are met. Calls must not overlap. */
  async synchronizeEvictions(shortages: readonly MetThreshold[]): Promise<void> {
    await this.#evictionManager.synchronize(shortages);
  }

  async #stats(signal: AbortSignal): Promise<ReadonlyMap<string, ContainerStats>> {
    const lists = await Promise.all(this.#options.runtimes.map(({ pleg }) => pleg.driver.listContainerStats({}, { signal })));
    return new Map(lists.flat().map((stats) => [stats.id, stats]));
  }

  #scheduleImageGC(): void {
    const { clock, config, signal, log, imagePullManager } = this.#options;
    this.#timer = clock.after(config.imageGc.periodMs, () => {
      void (async () => {
        const failed = (error: unknown) => {
          if (!signal.aborted) log.warn({ err: error }, 'image garbage collection failed');
        };
        for (const collector of this.#imageGCManagers) await collector.garbageCollect(signal).catch(failed);
        await imagePullManager?.pruneUnknownRecords(signal).catch(failed);
        if (!signal.aborted) this.#scheduleImageGC();
      })();
    });
  }
}
