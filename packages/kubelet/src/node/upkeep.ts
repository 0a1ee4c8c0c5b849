import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { ContainerStats } from '@oarlock/spi/runtime';
import type { KubeletConfig } from '../kubelet-config.ts';
import type { PodRuntime } from '../node-context.ts';
import { Evictions } from './evictions.ts';
import { ImageCollector } from './image-collector.ts';
import type { NodeAgent } from './node-agent.ts';
import type { Situation } from './situation.ts';
import type { Shortage } from './thresholds.ts';

export interface UpkeepOptions {
  readonly config: KubeletConfig;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly situation: Situation;
  readonly runtimes: readonly PodRuntime[];
  readonly agents: ReadonlyMap<string, NodeAgent>;
}

/** Keeps the machine usable: takes away what nobody needs, and pods when that is not enough. */
export class Upkeep {
  readonly #options: UpkeepOptions;
  readonly #evictions: Evictions;
  readonly #collectors: readonly ImageCollector[];
  #timer: Timer | undefined;

  constructor(options: UpkeepOptions) {
    const { config, clock, log, signal, situation, runtimes, agents } = options;
    this.#options = options;
    const tell = (type: 'Normal' | 'Warning') => (reason: string, message: string) => {
      for (const agent of agents.values()) agent.tell(type, reason, message);
    };
    const { highPercent, lowPercent, minimumAgeSeconds, maximumAgeSeconds } = config.imageGc;
    this.#collectors = runtimes
      .filter(({ hub }) => hub.driver.traits.images && !hub.simulated)
      .map(
        ({ hub }) =>
          new ImageCollector({
            driver: hub.driver,
            clock,
            log,
            high: highPercent,
            low: lowPercent,
            minAgeMs: minimumAgeSeconds * 1000,
            maxAgeMs: maximumAgeSeconds * 1000,
            removed: () => situation.imagesChanged(),
            tell: tell('Warning'),
          }),
      );
    this.#evictions = new Evictions({
      log,
      signal,
      maxGraceSeconds: Math.max(1, config.evictionMaxPodGraceSeconds),
      *pods() {
        for (const agent of agents.values()) yield* agent.pods.workers;
      },
      stats: (call) => this.#stats(call),
      reclaimDisk: async () => {
        for (const collector of this.#collectors) await collector.removeUnused(signal);
      },
      lookAgain: () => situation.look(),
      tell: tell('Warning'),
    });
  }

  start(): void {
    if (this.#collectors.length > 0) this.#arm();
  }
  stop(): void {
    this.#timer?.cancel();
  }

  /** Evicts what has to go. One call at a time. */
  async look(shortages: readonly Shortage[]): Promise<void> {
    await this.#evictions.look(shortages);
  }

  async #stats(signal: AbortSignal): Promise<ReadonlyMap<string, ContainerStats>> {
    const lists = await Promise.all(this.#options.runtimes.map(({ hub }) => hub.driver.listContainerStats({}, { signal })));
    return new Map(lists.flat().map((stats) => [stats.id, stats]));
  }

  #arm(): void {
    const { clock, config, signal, log } = this.#options;
    this.#timer = clock.after(config.imageGc.periodMs, () => {
      void (async () => {
        for (const collector of this.#collectors) {
          await collector.look(signal).catch((error: unknown) => {
            if (!signal.aborted) log.warn({ err: error }, 'images could not be looked through');
          });
        }
        if (!signal.aborted) this.#arm();
      })();
    });
  }
}
