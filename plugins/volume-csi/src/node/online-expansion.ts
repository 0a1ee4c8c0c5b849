import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { VolumeCapability } from '@oarlock/csi/csi-types';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client } from '@oarlock/spi/client';
import type { CsiDriver } from '../driver/csi-driver.ts';
import { needsNodeExpansion, type NodeExpansion } from './node-expansion.ts';
import type { Staging } from './staging.ts';

/** A volume of a PersistentVolumeClaim that is mounted on this node. */
export interface ExpandableVolume {
  readonly driver: CsiDriver;
  readonly claim: { readonly namespace: string; readonly name: string };
  readonly volumeName: string;
  readonly volumePath: string;
  readonly staged: string;
  readonly volumeCapability: VolumeCapability;
}

export interface OnlineExpansionOptions {
  readonly client: Client;
  readonly staging: Staging;
  readonly expansion: NodeExpansion;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

/**
 * How often the PersistentVolumeClaim of a volume is read, in milliseconds. Kubelets poll, because a node may get the PersistentVolumeClaims of
 * its pods but not watch them.
 */
const pollPeriodMs = 30_000;

/**
 * Calls NodeExpandVolume for mounted volumes after an external resizer has expanded the volume in the CSI driver (ControllerExpandVolume).
 * A resizer that runs in this process expands mounted volumes on the node without this class.
 */
export class OnlineExpansion {
  readonly #options: OnlineExpansionOptions;
  readonly #volumes = new Map<string, Timer>();
  readonly #stop = new AbortController();

  constructor(options: OnlineExpansionOptions) {
    this.#options = options;
  }

  /** Polls for expansions of the volume until `forget` is called. Ignores drivers without the capability NODE_EXPAND_VOLUME. */
  watch(volume: ExpandableVolume): void {
    if (!volume.driver.nodeCapabilities.has('NODE_EXPAND_VOLUME') || this.#stop.signal.aborted) return;
    this.forget(volume.staged);
    this.#schedule(volume);
  }
  forget(staged: string): void {
    this.#volumes.get(staged)?.cancel();
    this.#volumes.delete(staged);
  }
  stop(): void {
    this.#stop.abort(new Error('the node is stopping'));
    for (const timer of this.#volumes.values()) timer.cancel();
    this.#volumes.clear();
  }

  #schedule(volume: ExpandableVolume): void {
    const { clock, random, log } = this.#options;
    const timer = clock.after(pollPeriodMs * (0.75 + random() / 2), () => {
      this.#poll(volume)
        .catch((error: unknown) => {
          if (!this.#stop.signal.aborted) log.warn({ volume: volume.volumeName, error: String(error) }, 'cannot expand a volume yet');
        })
        .finally(() => {
          if (this.#volumes.get(volume.staged) === timer) this.#schedule(volume);
        });
    });
    this.#volumes.set(volume.staged, timer);
  }

  async #poll({ driver, claim: name, volumeName, volumePath, staged, volumeCapability }: ExpandableVolume): Promise<void> {
    const { client, staging, expansion } = this.#options;
    const { signal } = this.#stop;
    const claim = await client.get(persistentVolumeClaims, name, { signal });
    if (!needsNodeExpansion(claim) || claim.spec?.volumeName !== volumeName) return;
    const volume = await client.get(persistentVolumes, { name: volumeName }, { signal });
    await staging.runExclusive(staged, () =>
      expansion.finish(driver, { volume, claim, expansionTarget: { volumePath, staged, volumeCapability } }, { signal }),
    );
  }
}
