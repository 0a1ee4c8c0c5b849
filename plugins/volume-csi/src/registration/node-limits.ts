import { csiDrivers } from '@oarlock/api/resources';
import type { CSIDriver } from '@oarlock/api/types/storage-v1';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client, Informers } from '@oarlock/spi/client';
import type { CsiDriver } from '../driver/csi-driver.ts';
import { installDriver } from './registration.ts';
import type { Sidecar } from '../sidecars/sidecar.ts';

export interface NodeLimitsOptions {
  readonly driver: CsiDriver;
  readonly nodeName: string;
  readonly client: Client;
  readonly informers: Informers;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Updates the driver's volume limit of the node periodically, as CSIDriver.nodeAllocatableUpdatePeriodSeconds specifies (KEP-4876). */
export class NodeLimits implements Sidecar {
  readonly #options: NodeLimitsOptions;
  readonly #stop = new AbortController();
  #timer: Timer | undefined;
  #periodMs: number | undefined;
  #off: (() => void) | undefined;
  #updating: Promise<void> | undefined;

  constructor(options: NodeLimitsOptions) {
    this.#options = options;
  }

  start(): void {
    const { informers, driver } = this.#options;
    const update = ({ metadata, spec }: CSIDriver) => {
      if (metadata?.name === driver.name) this.#setPeriod(spec.nodeAllocatableUpdatePeriodSeconds);
    };
    this.#off = informers.forResource(csiDrivers).addEventHandler({
      onAdd: update,
      onUpdate: update,
      onDelete: ({ metadata }) => {
        if (metadata?.name === driver.name) this.#setPeriod(undefined);
      },
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the driver is being removed'));
    this.#off?.();
    this.#timer?.cancel();
    await this.#updating;
  }

  /** Updates the volume limit after an attachment failed with ResourceExhausted. Does nothing if the CSIDriver has no update period. */
  onResourceExhausted(): void {
    if (this.#periodMs !== undefined) this.#query();
  }

  #setPeriod(seconds: number | undefined): void {
    const periodMs = seconds === undefined ? undefined : seconds * 1000;
    if (periodMs === this.#periodMs) return;
    this.#periodMs = periodMs;
    this.#schedule();
  }
  #schedule(): void {
    this.#timer?.cancel();
    if (this.#periodMs === undefined || this.#stop.signal.aborted) return;
    this.#timer = this.#options.clock.after(this.#periodMs, () => this.#query());
  }

  #query(): void {
    this.#updating ??= this.#update()
      .catch((error: unknown) => {
        const { driver, log } = this.#options;
        if (!this.#stop.signal.aborted)
          log.warn({ driver: driver.name, error: String(error) }, "cannot update the node's volume limit of a CSI driver");
      })
      .finally(() => {
        this.#updating = undefined;
        this.#schedule();
      });
  }
  async #update(): Promise<void> {
    const { driver, nodeName, client } = this.#options;
    const node = await driver.client.nodeGetInfo({ signal: this.#stop.signal });
    await installDriver({ ...driver, node: { ...driver.node, maxVolumesPerNode: node.maxVolumesPerNode } }, nodeName, client);
  }
}
