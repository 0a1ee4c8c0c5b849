import { Backoff } from '@oarlock/client/backoff';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
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
  /** What must keep its addresses: everything that runs, of others too. Asked for while no pod of this node can begin. */
  held(signal: AbortSignal): Promise<readonly Held[]>;
  /** The plugin can give addresses. */
  ready(): Promise<void>;
}

export type Held = Pick<Attachment, 'containerId' | 'ifName'>;

/** Tells the network plugin what the node has for its pods: as soon as that is known, and again when it changes. */
export class NodeNetworkSetup {
  readonly #options: NodeNetworkSetupOptions;
  #wanted: readonly string[] | undefined;
  #running = false;
  #collected = false;

  constructor(options: NodeNetworkSetupOptions) {
    this.#options = options;
  }

  /** Whether the plugin can begin before the node has a range: it gives addresses of its own. */
  get needsNoRange(): boolean {
    const { namespace, ownAddresses = false } = this.#options.network.traits;
    return namespace === 'node' || ownAddresses;
  }

  /** Resolves when the plugin has taken these ranges, or newer ones. Tries until it succeeds or the signal aborts. */
  async use(podCIDRs: readonly string[]): Promise<void> {
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
          log.warn({ err: error }, "the node's network could not be set up; trying again");
          this.#wanted ??= ranges;
          await clock.sleep(backoff.next(), signal).catch(() => undefined);
        }
      }
    } finally {
      this.#running = false;
    }
    if (!signal.aborted) await ready();
  }

  /** Frees addresses that were given to sandboxes which are not there any more, before the first pod gets one: later, one might be freed that is new. */
  async #collect(): Promise<void> {
    const { network, held, log, signal } = this.#options;
    this.#collected = true;
    try {
      await network.gc(await held(signal), { signal });
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error }, 'addresses that nobody holds could not be freed');
    }
  }
}
