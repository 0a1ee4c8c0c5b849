import { createHash } from 'node:crypto';
import { addressOfCIDR, cidrContains, parseCIDR } from '@oarlock/api/net/cidr';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { NodeNetwork } from '@oarlock/spi/network';
import { LinkMonitor } from './link-monitor.ts';
import type { Peer, PeerSource } from './node-peers.ts';
import { familyOf } from './cidr.ts';
import { runProgram } from '@oarlock/primitives/os/run-program';

export interface NodeRoutesOptions {
  /**
   * How packets reach other nodes. `direct`: routes through the nodes, which must be on one link. `vxlan`: UDP tunnels between the nodes' IPv4
   * addresses.
   */
  readonly mode: 'direct' | 'vxlan';
  readonly device: string;
  /** Settings of the VXLAN device. */
  readonly id: number;
  readonly port: number;
  readonly peers: PeerSource;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Routing protocol number of Oarlock's routes (`ip route ... proto`). */
const protocol = '77';
const timeoutMs = 10_000;
const retryMs = 2_000;

/** Overhead of VXLAN, in bytes per packet. */
export const vxlanOverhead = 50;

/** Returns the MAC address of a node's VXLAN device, derived from the node's IP address, so that nodes need not exchange it. */
export function deviceMac(address: string): string {
  const bytes = createHash('sha256').update(address).digest().subarray(0, 5);
  return ['02', ...[...bytes].map((byte) => byte.toString(16).padStart(2, '0'))].join(':');
}

/** A route that exists in the kernel. */
interface Present {
  readonly gateway?: string;
  readonly dev?: string;
}

/** Maintains the routes to the pods of other nodes whenever nodes, or links of this node, change. */
export class NodeRoutes {
  readonly #options: NodeRoutesOptions;
  readonly #programmed = new Map<string, string>();
  /** False until the forwarding entries of an earlier process have been compared with the nodes. */
  #tunnelsPruned = false;
  /** Names of the devices that current and earlier routes use. */
  readonly #devices = new Set<string>();
  readonly #links: LinkMonitor;
  #deviceLost = false;
  readonly #off: () => void;
  #node: NodeNetwork | undefined;
  #working: Promise<void> | undefined;
  #dirty = false;
  #stopped = false;

  constructor(options: NodeRoutesOptions) {
    this.#options = options;
    this.#off = options.peers.onChange(() => this.#wake());
    this.#devices.add(options.device);
    const { clock, log } = options;
    this.#links = new LinkMonitor({
      clock,
      log,
      changed: (link) => {
        if (link === options.device) this.#deviceLost = true;
        if (link === undefined || this.#devices.has(link)) this.#wake();
      },
    });
  }

  /** Starts maintaining routes, or applies a changed configuration. Routes of an earlier process stay until the first list of peers is complete. */
  async configure(node: NodeNetwork): Promise<void> {
    this.#node = node;
    while (this.#working) await this.#working;
    if (this.#options.mode === 'vxlan') await this.#alone(this.#makeDevice(node));
    this.#wake();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#off();
    this.#links.stop();
    await this.#working;
  }

  #wake(): void {
    this.#dirty = true;
    if (this.#working !== undefined || this.#stopped || this.#node === undefined || !this.#options.peers.synced) return;
    void this.#alone(this.#work());
  }

  /** Postpones updates of the routes until `work` has ended. */
  #alone(work: Promise<void>): Promise<void> {
    const ended = () => {
      this.#working = undefined;
      if (this.#dirty) this.#wake();
    };
    this.#working = work.then(ended, ended);
    return work;
  }

  async #work(): Promise<void> {
    const { clock, log } = this.#options;
    this.#dirty = false;
    const own = this.#node;
    if (!own) return;
    const ownAddresses = new Set(own.nodeIPs);
    // several kubelets of one machine share the bridge
    const reach = ({ address, vtep }: Peer) => (this.#options.mode === 'direct' ? address : vtep);
    const desiredRoutes = new Map(
      this.#options.peers.list(own.nodeName).flatMap((peer) => {
        const by = reach(peer);
        return by === undefined || ownAddresses.has(by) ? [] : [[peer.range, by] as const];
      }),
    );
    try {
      // CIDRs outside belong to other clusters on this machine
      const clusterCIDRs = own.clusterCIDRs.flatMap((range) => parseCIDR(range) ?? []);
      const isInCluster = (range: string) => clusterCIDRs.some((cidr) => cidrContains(cidr, addressOfCIDR(range) ?? ''));
      if (desiredRoutes.size > 0) this.#links.start();
      if (this.#options.mode === 'vxlan' && this.#deviceLost) await this.#makeDevice(own);
      this.#deviceLost = false;
      const existing = await this.#existing();
      const surplus = [...existing.keys()].filter((range) => !desiredRoutes.has(range) && isInCluster(range));
      for (const range of surplus) await this.#remove(range);
      const missing = [...desiredRoutes].filter(
        ([range, address]) => this.#programmed.get(range) !== address || !this.#leads(existing.get(range), range, address),
      );
      for (const [range, address] of missing) await this.#add(range, address);
      if (surplus.length > 0 || missing.length > 0) this.#tunnelsPruned = false;
      if (this.#options.mode === 'vxlan' && !this.#tunnelsPruned) await this.#pruneTunnels(new Set(desiredRoutes.values()));
      if (missing.length > 0) await this.#existing(); // to learn their devices
    } catch (error) {
      log.warn({ error: (error as Error).message, retryInMs: retryMs }, 'could not set up routes to the pods of other nodes');
      clock.after(retryMs, () => this.#wake());
    }
  }

  #leads(present: Present | undefined, range: string, address: string): boolean {
    const { mode, device } = this.#options;
    return mode === 'direct' ? present?.gateway === address : present?.gateway === addressOfCIDR(range) && present?.dev === device;
  }

  async #existing(): Promise<ReadonlyMap<string, Present>> {
    const lists = await Promise.all(
      ['-4', '-6'].map(async (family) => {
        const { exitCode, stdout } = await runProgram(this.#options.clock, 'ip', ['-j', family, 'route', 'show', 'proto', protocol], {
          timeoutMs,
        });
        return exitCode === 0 && stdout.trim() !== '' ? (JSON.parse(stdout) as readonly (Present & { readonly dst: string })[]) : [];
      }),
    );
    const all = lists.flat();
    for (const { dev } of all) if (dev !== undefined) this.#devices.add(dev);
    return new Map(all.map((route) => [route.dst.includes('/') ? route.dst : `${route.dst}/${route.dst.includes(':') ? 128 : 32}`, route]));
  }

  async #add(range: string, address: string): Promise<void> {
    if (this.#options.mode === 'direct') await this.#run('ip', ['route', 'replace', range, 'via', address, 'proto', protocol]);
    else {
      const { device } = this.#options;
      const gateway = addressOfCIDR(range) ?? '';
      const mac = deviceMac(address);
      await this.#run('bridge', ['fdb', 'replace', mac, 'dev', device, 'dst', address]);
      await this.#run('ip', ['neigh', 'replace', gateway, 'lladdr', mac, 'dev', device, 'nud', 'permanent']);
      await this.#run('ip', ['route', 'replace', range, 'via', gateway, 'dev', device, 'onlink', 'proto', protocol]);
    }
    this.#programmed.set(range, address);
  }

  async #remove(range: string): Promise<void> {
    this.#programmed.delete(range);
    await this.#run('ip', ['route', 'del', range, 'proto', protocol]);
    if (this.#options.mode !== 'vxlan') return;
    const { device, clock } = this.#options;
    await runProgram(clock, 'ip', ['neigh', 'del', addressOfCIDR(range) ?? '', 'dev', device], { timeoutMs });
  }

  /** Deletes the forwarding entries of nodes that no route uses. One entry serves all ranges of a node. */
  async #pruneTunnels(used: ReadonlySet<string>): Promise<void> {
    const { device } = this.#options;
    const text = await this.#run('bridge', ['-j', 'fdb', 'show', 'dev', device]);
    const entries = text.trim() === '' ? [] : (JSON.parse(text) as readonly { readonly mac?: string; readonly dst?: string }[]);
    for (const { mac, dst } of entries)
      if (mac !== undefined && dst !== undefined && !used.has(dst))
        await this.#run('bridge', ['fdb', 'del', mac, 'dev', device, 'dst', dst]);
    this.#tunnelsPruned = true;
  }

  async #makeDevice({ nodeIPs, podCIDRs }: NodeNetwork): Promise<void> {
    const { device, id, port, clock } = this.#options;
    const local = nodeIPs.find((address) => !address.includes(':'));
    if (local === undefined) throw new Error('VXLAN needs an IPv4 address of the node');
    const link = await runProgram(clock, 'ip', ['-d', '-j', 'link', 'show', 'dev', device], { timeoutMs });
    const [known] =
      link.exitCode === 0
        ? (JSON.parse(link.stdout) as readonly { linkinfo?: { info_data?: { local?: string; id?: number; port?: number } } }[])
        : [];
    const data = known?.linkinfo?.info_data;
    if (known && (data?.local !== local || data.id !== id || data.port !== port)) await this.#run('ip', ['link', 'del', 'dev', device]);
    if (!known || data?.local !== local || data.id !== id || data.port !== port)
      await this.#run('ip', [
        ...['link', 'add', device, 'address', deviceMac(local), 'type', 'vxlan'],
        ...['id', String(id), 'local', local, 'dstport', String(port), 'nolearning'],
      ]);
    await this.#run('ip', ['link', 'set', 'dev', device, 'up']);
    // packets of this node to remote pods need a source address that the other node can route back to
    for (const range of firstOfEach(podCIDRs)) {
      const bits = familyOf(range) === 4 ? ['32'] : ['128', 'nodad'];
      await this.#run('ip', ['addr', 'replace', `${addressOfCIDR(range)}/${bits[0]}`, 'dev', device, ...bits.slice(1)]);
    }
  }

  async #run(program: string, args: readonly string[]): Promise<string> {
    const { exitCode, stdout, stderr, killed } = await runProgram(this.#options.clock, program, args, { timeoutMs });
    if (exitCode !== 0) throw new Error(`${program} ${args.join(' ')}: ${killed ?? stderr.trim().slice(0, 300)}`);
    return stdout;
  }
}

const firstOfEach = (ranges: readonly string[]) =>
  ([4, 6] as const).flatMap((family) => ranges.filter((range) => familyOf(range) === family).slice(0, 1));
