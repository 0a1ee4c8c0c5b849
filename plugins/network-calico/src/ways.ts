import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { PeerSource } from '@oarlock/network-cni/node-peers';
import { NodeRoutes } from '@oarlock/network-cni/node-routes';
import type { NodeNetwork } from '@oarlock/spi/network';
import type { AddressBook } from './address-book.ts';
import type { CalicoConfig } from './config.ts';
import { endUnusedHere } from './own-blocks-routes.ts';
import type { Pool } from './pools.ts';

export interface WaysOptions {
  readonly config: CalicoConfig;
  readonly book: AddressBook;
  /** Absent: this node knows of no others. */
  readonly peers: PeerSource | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}
const retryMs = 2_000;

/** What leads to pods of other nodes, and what tells others the way to ours. */
export class Ways {
  readonly #options: WaysOptions;
  readonly #routes: NodeRoutes | undefined;
  #current: { readonly node: NodeNetwork; readonly pools: readonly Pool[] } | undefined;
  #working: Promise<void> | undefined;
  #dirty = false;
  #stopped = false;

  constructor(options: WaysOptions) {
    this.#options = options;
    const { config, peers, clock, log } = options;
    if (peers && (config.routes === 'direct' || config.routes === 'vxlan'))
      this.#routes = new NodeRoutes({ mode: config.routes, ...config.vxlan, peers, clock, log });
  }

  /** Begins, or goes on with other values. @throws Error when it cannot begin */
  async use(node: NodeNetwork, pools: readonly Pool[]): Promise<void> {
    this.#current = { node, pools };
    await this.#working;
    await this.#publish();
  }

  /** The node's blocks have changed. */
  changed(): void {
    this.#dirty = true;
    if (this.#working || this.#stopped || !this.#current) return;
    this.#working = this.#publish()
      .catch((error: unknown) => {
        const { clock, log } = this.#options;
        log.warn({ error: String(error), retryInMs: retryMs }, "the ways to this node's pods could not be changed");
        clock.after(retryMs, () => this.changed());
      })
      .finally(() => {
        this.#working = undefined;
        if (this.#dirty) this.changed();
      });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#working;
    await this.#routes?.stop();
  }

  async #publish(): Promise<void> {
    this.#dirty = false;
    const { book, clock } = this.#options;
    const current = this.#current;
    if (!current) return;
    await endUnusedHere(clock, book.ranges);
    await this.#routes?.use({ ...current.node, podCIDRs: book.ranges, clusterCIDRs: current.pools.map(({ cidr }) => cidr) });
  }
}
