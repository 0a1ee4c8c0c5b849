import { Backoff } from '@oarlock/primitives/backoff';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import type { Attachment, NetworkDriver } from '@oarlock/spi/network';

export interface NodeNetworkSetupOptions {
  readonly network: NetworkDriver;
  readonly nodeName: string;
  readonly facts: ClusterFacts;
  readonly addresses: readonly string[];
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly signal: AbortSignal;
  /**
   * Returns the network attachments whose addresses must stay allocated, including attachments of other kubelets. Called before any pod of this
   * node starts.
   */
  heldAttachments(signal: AbortSignal): Promise<readonly HeldAttachment[]>;
  /** Called when the network plugin can assign addresses. */
  ready(): Promise<void>;
}

export type HeldAttachment = Pick<Attachment, 'containerId' | 'ifName'>;

/** Configures the network plugin with the node's pod CIDRs, at startup and after each change of the pod CIDRs. */
export class NodeNetworkSetup {
  readonly #options: NodeNetworkSetupOptions;
  #wanted: readonly string[] | undefined;
  #running = false;
  #collected = false;

  constructor(options: NodeNetworkSetupOptions) {
    this.#options = options;
  }

  /** True if the network plugin needs no pod CIDR, because it assigns other addresses. */
  get worksWithoutPodCIDR(): boolean {
    const { namespace, ownAddresses = false } = this.#options.network.traits;
    return namespace === 'node' || ownAddresses;
  }

  /**
   * Configures the network plugin with these pod CIDRs, and resolves when these or newer pod CIDRs are configured. Retries until the plugin succeeds
   * or the signal aborts.
   */
  async setPodCIDRs(podCIDRs: readonly string[]): Promise<void> {
    this.#wanted = podCIDRs;
    if (this.#running) return;
    this.#running = true;
    const { network, nodeName, facts, addresses, clock, log, random, signal, ready } = this.#options;
    const backoff = new Backoff({ firstMs: 250, longestMs: 30_000, jitter: 0.3, random });
    try {
      while (this.#wanted !== undefined && !signal.aborted) {
        const ranges: readonly string[] = this.#wanted;
        this.#wanted = undefined;
        try {
          await network.setup(
            { nodeName, podCIDRs: ranges, clusterCIDRs: facts.podCIDRs, serviceCIDRs: facts.serviceCIDRs, nodeIPs: addresses },
            { signal },
          );
          backoff.reset();
          if (!this.#collected) await this.#collect();
        } catch (error) {
          if (signal.aborted) return;
          log.warn({ err: error }, "setting up the node's network failed; retrying");
          this.#wanted ??= ranges;
          await clock.sleep(backoff.next(), signal).catch(() => undefined);
        }
      }
    } finally {
      this.#running = false;
    }
    if (!signal.aborted) await ready();
  }

  /**
   * Releases the addresses of sandboxes that no longer exist. Runs once, before the first pod gets an address, because a later run could release the
   * address of a new pod.
   */
  async #collect(): Promise<void> {
    const { network, heldAttachments: held, log, signal } = this.#options;
    this.#collected = true;
    try {
      await network.gc(await held(signal), { signal });
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error }, 'releasing unused pod addresses failed');
    }
  }
}
