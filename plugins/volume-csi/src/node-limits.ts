import { csiDrivers } from '@oarlock/api/resources';
import type { CSIDriver } from '@oarlock/api/types/storage-v1';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client, Informers } from '@oarlock/spi/client';
import type { CsiDriver } from './csi-driver.ts';
import { register } from './registration.ts';
import type { Sidecar } from './sidecar.ts';

export interface NodeLimitsOptions {
  readonly driver: CsiDriver;
  readonly nodeName: string;
  readonly client: Client;
  readonly informers: Informers;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Asks the driver again how many volumes the node takes, as often as its CSIDriver says (`nodeAllocatableUpdatePeriodSeconds`, KEP-4876). */
export class NodeLimits implements Sidecar {
  readonly #options: NodeLimitsOptions;
  readonly #stop = new AbortController();
  #timer: Timer | undefined;
  #periodMs: number | undefined;
  #off: (() => void) | undefined;
  #asking: Promise<void> | undefined;

  constructor(options: NodeLimitsOptions) {
    this.#options = options;
  }

  start(): void {
    const { informers, driver } = this.#options;
    const see = ({ metadata, spec }: CSIDriver) => {
      if (metadata?.name === driver.name) this.#every(spec.nodeAllocatableUpdatePeriodSeconds);
    };
    this.#off = informers.of(csiDrivers).on({
      added: see,
      updated: see,
      deleted: ({ metadata }) => {
        if (metadata?.name === driver.name) this.#every(undefined);
      },
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the driver is leaving'));
    this.#off?.();
    this.#timer?.cancel();
    await this.#asking;
  }

  /** A volume could not be attached because there were too many: what was said before was wrong. Nothing where limits are not asked for again. */
  exhausted(): void {
    if (this.#periodMs !== undefined) this.#ask();
  }

  #every(seconds: number | undefined): void {
    const periodMs = seconds === undefined ? undefined : seconds * 1000;
    if (periodMs === this.#periodMs) return;
    this.#periodMs = periodMs;
    this.#arm();
  }
  #arm(): void {
    this.#timer?.cancel();
    if (this.#periodMs === undefined || this.#stop.signal.aborted) return;
    this.#timer = this.#options.clock.after(this.#periodMs, () => this.#ask());
  }

  #ask(): void {
    this.#asking ??= this.#update()
      .catch((error: unknown) => {
        const { driver, log } = this.#options;
        if (!this.#stop.signal.aborted)
          log.warn({ driver: driver.name, error: String(error) }, 'how many volumes a node takes is not known');
      })
      .finally(() => {
        this.#asking = undefined;
        this.#arm();
      });
  }
  async #update(): Promise<void> {
    const { driver, nodeName, client } = this.#options;
    const node = await driver.client.nodeInfo({ signal: this.#stop.signal });
    await register({ ...driver, node: { ...driver.node, maxVolumesPerNode: node.maxVolumesPerNode } }, nodeName, client);
  }
}
