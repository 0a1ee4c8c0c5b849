import { join } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { NodeRoutes } from '@oarlock/network-cni/routing/node-routes';
import type { NodeNetwork } from '@oarlock/spi/network';
import { nodes } from '@oarlock/api/resources';
import type { Node } from '@oarlock/api/types/core-v1';
import { nodeAddresses, type PeerSource } from '@oarlock/network-cni/routing/node-peers';
import type { Informer, Informers } from '@oarlock/spi/client';
import type { BlockAllocator } from '../ipam/block-allocator.ts';
import { Bird } from './bird.ts';
import { birdConfig, type BgpNode } from './bird-config.ts';
import type { CalicoConfig } from '../config/calico-config.ts';
import { syncBlackholeRoutes } from './blackhole-routes.ts';
import type { Pool } from '../ipam/pools.ts';

export interface RouteManagerOptions {
  readonly config: CalicoConfig;
  readonly allocator: BlockAllocator;
  /** The source of other nodes; undefined if this node does not watch other nodes. */
  readonly peers: PeerSource | undefined;
  readonly informers: Informers | undefined;
  readonly dataDir: string;
  readonly clock: Clock;
  readonly log: Logger;
}
const retryMs = 2_000;
const noPeers: PeerSource = { synced: true, onChange: () => () => undefined, list: () => [] };

/** Programs the routes to pods of other nodes, and announces the routes to pods of this node. */
export class RouteManager {
  readonly #options: RouteManagerOptions;
  readonly #routes: NodeRoutes | undefined;
  readonly #bird: Bird;
  readonly #nodes: Informer<Node> | undefined;
  readonly #off: (() => void) | undefined;
  #current: { readonly node: NodeNetwork; readonly pools: readonly Pool[] } | undefined;
  #publishing: Promise<void> = Promise.resolve();
  /** True while an update waits that has not read the blocks yet. */
  #scheduled = false;
  #published = false;
  #stopped = false;

  constructor(options: RouteManagerOptions) {
    this.#options = options;
    const { config, peers, informers, clock, log, dataDir } = options;
    if (peers && (config.routes === 'direct' || config.routes === 'vxlan'))
      this.#routes = new NodeRoutes({ mode: config.routes, ...config.vxlan, peers, clock, log });
    this.#bird = new Bird({ program: config.bgp.program, directory: join(dataDir, 'bird'), clock, log });
    if (config.routes === 'bgp') {
      // removes the routes of another mode, which would take precedence over BIRD's
      this.#routes = new NodeRoutes({ mode: 'direct', ...config.vxlan, peers: noPeers, clock, log });
      this.#nodes = informers?.forResource(nodes);
      const changed = () => this.changed();
      const seen = (node: Node) => JSON.stringify([nodeAddresses(node), node.metadata?.labels]);
      this.#off = this.#nodes?.addEventHandler({
        onAdd: changed,
        onDelete: changed,
        onUpdate: (node, old) => void (seen(node) !== seen(old) && changed()),
      });
    }
  }

  /** Applies the node's addresses and pools. @throws Error if the first attempt to program the routes fails */
  async configure(node: NodeNetwork, pools: readonly Pool[]): Promise<void> {
    this.#current = { node, pools };
    await this.#publishNext();
  }

  /** Schedules an update of the routes, because the node's blocks changed. */
  changed(): void {
    if (this.#scheduled || this.#stopped || !this.#current) return;
    this.#scheduled = true;
    this.#publishNext().catch((error: unknown) => {
      const { clock, log } = this.#options;
      log.warn({ error: String(error), retryInMs: retryMs }, 'the routes to pods of this node could not be updated');
      clock.after(retryMs, () => this.changed());
    });
  }

  /** One update at a time: an update that has read older blocks must not write after an update that has read newer ones. */
  #publishNext(): Promise<void> {
    const result = this.#publishing.then(() => this.#publish());
    this.#publishing = result.catch(() => undefined); // the caller already receives the rejection
    return result;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#off?.();
    await this.#publishing;
    await this.#routes?.stop();
    await this.#bird.stop();
  }

  async #publish(): Promise<void> {
    this.#scheduled = false;
    const { allocator, clock } = this.#options;
    const current = this.#current;
    if (!current || this.#stopped) return;
    await syncBlackholeRoutes(clock, allocator.ranges);
    if (this.#options.config.routes === 'bgp') await this.#bird.configure(this.#birdConfig(current.node, current.pools));
    else if (!this.#published) await this.#bird.shutDown();
    this.#published = true;
    await this.#routes?.configure({ ...current.node, podCIDRs: allocator.ranges, clusterCIDRs: current.pools.map(({ cidr }) => cidr) });
  }

  #birdConfig({ nodeName, nodeIPs }: NodeNetwork, pools: readonly Pool[]): string {
    const { config, allocator } = this.#options;
    const [label, value] = config.bgp.reflectors?.split('=') ?? [];
    const reflects = (labels: Readonly<Record<string, string>> = {}) => label !== undefined && labels[label] === value;
    const ownAddresses = new Set(nodeIPs);
    const others = (this.#nodes?.list() ?? []).flatMap((node): BgpNode[] => {
      const { name = '', labels } = node.metadata ?? {};
      const addresses = nodeAddresses(node);
      // several kubelets on one machine share its routes
      return name === nodeName || addresses.some((address) => ownAddresses.has(address))
        ? []
        : [{ name, addresses, reflects: reflects(labels) }];
    });
    return birdConfig({
      own: { name: nodeName, addresses: nodeIPs, reflects: reflects(this.#nodes?.get(nodeName)?.metadata?.labels) },
      others: others.sort((a, b) => (a.name < b.name ? -1 : 1)),
      announced: [...allocator.ranges, ...allocator.borrowed.map((address) => `${address}/${address.includes(':') ? 128 : 32}`)],
      pools: pools.map(({ cidr }) => cidr),
      bgp: config.bgp,
      interfacePrefix: config.interfacePrefix,
      logFile: this.#bird.logFile,
    });
  }
}
