import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { VolumeCapability } from '@oarlock/csi/csi-types';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client } from '@oarlock/spi/client';
import type { CsiDriver } from './csi-driver.ts';
import { waitsForNode, type NodeExpansion } from './node-expansion.ts';
import type { Staging } from './staging.ts';

/** A volume that is mounted on this node for a claim. */
export interface Growing {
  readonly driver: CsiDriver;
  readonly claim: { readonly namespace: string; readonly name: string };
  readonly volumeName: string;
  readonly volumePath: string;
  readonly staged: string;
  readonly volumeCapability: VolumeCapability;
}

export interface OnlineGrowthOptions {
  readonly client: Client;
  readonly staging: Staging;
  readonly expansion: NodeExpansion;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

/** How often a claim is asked for: nodes may get claims of their pods and watch none, so kubelets ask. Milliseconds. */
const askMs = 30_000;

/**
 * Volumes grow while they are mounted, whoever has made them larger. Where the resizer runs in this process it is sooner; here is what is left to
 * nodes that have no part in it.
 */
export class OnlineGrowth {
  readonly #options: OnlineGrowthOptions;
  readonly #volumes = new Map<string, Timer>();
  readonly #stop = new AbortController();

  constructor(options: OnlineGrowthOptions) {
    this.#options = options;
  }

  /** From now on, until it is forgotten. */
  watch(volume: Growing): void {
    if (!volume.driver.nodeAbilities.has('NODE_EXPAND_VOLUME') || this.#stop.signal.aborted) return;
    this.forget(volume.staged);
    this.#arm(volume);
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

  #arm(volume: Growing): void {
    const { clock, random, log } = this.#options;
    const timer = clock.after(askMs * (0.75 + random() / 2), () => {
      this.#look(volume)
        .catch((error: unknown) => {
          if (!this.#stop.signal.aborted) log.warn({ volume: volume.volumeName, error: String(error) }, 'a volume has not grown yet');
        })
        .finally(() => {
          if (this.#volumes.get(volume.staged) === timer) this.#arm(volume);
        });
    });
    this.#volumes.set(volume.staged, timer);
  }

  async #look({ driver, claim: name, volumeName, volumePath, staged, volumeCapability }: Growing): Promise<void> {
    const { client, staging, expansion } = this.#options;
    const { signal } = this.#stop;
    const claim = await client.get(persistentVolumeClaims, name, { signal });
    if (!waitsForNode(claim) || claim.spec?.volumeName !== volumeName) return;
    const volume = await client.get(persistentVolumes, { name: volumeName }, { signal });
    await staging.turn(staged, () => expansion.finish(driver, volume, claim, { volumePath, staged, volumeCapability }, { signal }));
  }
}
