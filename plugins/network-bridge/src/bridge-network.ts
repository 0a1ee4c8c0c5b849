import { mkdir } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import type { Lifecycle, PluginContext } from '@oarlock/kernel/plugin';
import {
  NetworkError,
  type Attachment,
  type NetworkCallOptions,
  type NetworkDriver,
  type NetworkResult,
  type NodeNetwork,
} from '@oarlock/spi/network';
import { asNetworkError, Attachments } from '@oarlock/network-cni/cni/attachments';
import { attachmentKey, type AttachmentKey } from '@oarlock/network-cni/cni/record-files';
import type { CniResult } from '@oarlock/network-cni/cni/protocol';
import { CniChain } from '@oarlock/network-cni/cni/chain';
import { CniPlugins, findPlugins } from '@oarlock/network-cni/cni/plugins';
import { conflistBefore, writeConflist } from '@oarlock/network-cni/cni/conflist';
import { ConflistClaim } from '@oarlock/network-cni/cni/conflist-claim';
import { vxlanOverhead, type NodeRoutes } from '@oarlock/network-cni/routing/node-routes';
import { ForwardingRules } from '@oarlock/network-cni/routing/forwarding';
import { NodeSetup } from '@oarlock/network-cni/routing/node-setup';
import { familyOf } from '@oarlock/network-cni/routing/cidr';
import { cidrSize, parseCIDR } from '@oarlock/api/net/cidr';
import { foreignInterface } from './foreign-interface.ts';
import { removeHostInterfaces } from './host-interfaces.ts';
import { cachedResult } from './cached-results.ts';
import { countLeases, hostLocalLeases } from './host-local-leases.ts';
import { networkPlugins } from './network-list.ts';
import { SourceAddressFilter } from './source-address-filter.ts';

export interface BridgeNetworkConfig {
  readonly binDirs: readonly string[];
  /** The directory of the CNI configuration; null to write no conflist. */
  readonly confDir: string | null;
  readonly confFile: string;
  readonly name: string;
  readonly bridge: string;
  readonly mtu?: number | undefined;
  readonly ipMasq: boolean;
  readonly hairpin: boolean;
  readonly isGateway: boolean;
  readonly bandwidth: 'auto' | 'on' | 'off';
  readonly ipamDir?: string | undefined;
  readonly timeoutSeconds: number;
  readonly gcGraceSeconds: number;
  readonly routes: 'direct' | 'vxlan' | 'none';
  readonly vxlan: { readonly device: string };
  readonly sourceAddressFilter: boolean;
  /** The cache of libcni, where container runtimes keep the results of ADD. */
  readonly cniCacheDir: string;
}
type Context = Pick<PluginContext, 'log' | 'clock' | 'tracer' | 'dataDir'>;

/** The maximum number of concurrent CNI operations. More would only wait for locks of the kernel and of iptables. */
const parallel = 8;
const usualMtu = 1500;
const requiredPlugins = ['bridge', 'host-local', 'portmap', 'loopback'];

/** What the network needs besides its config. */
export interface BridgeNetworkOptions {
  readonly traits: NetworkDriver['traits'];
  readonly context: Context;
  readonly routes?: NodeRoutes | undefined;
}

/**
 * A bridge network that uses the standard CNI plugins. Writes a conflist for runtimes that call CNI themselves, and executes the CNI plugins for all
 * other runtimes.
 */
export class BridgeNetwork implements NetworkDriver, Lifecycle {
  readonly traits: NetworkDriver['traits'];
  readonly #config: BridgeNetworkConfig;
  readonly #plugins: CniPlugins;
  readonly #chain: CniChain;
  readonly #attachments: Attachments;
  readonly #node: NodeSetup;
  readonly #forwarding: ForwardingRules;
  readonly #sourceAddressFilter: SourceAddressFilter;
  readonly #routes: NodeRoutes | undefined;
  readonly #ipamDir: string;
  readonly #dataDir: string;
  readonly #log: Context['log'];
  #claim: ConflistClaim | undefined;
  readonly #stopping = new AbortController();
  #setup: Promise<void> = Promise.resolve();
  #size = 0n;

  constructor(config: BridgeNetworkConfig, { traits, context, routes }: BridgeNetworkOptions) {
    this.traits = traits;
    this.#config = config;
    this.#plugins = new CniPlugins(context.clock, config.binDirs, config.timeoutSeconds * 1000);
    this.#chain = new CniChain(this.#plugins);
    this.#node = new NodeSetup(context.clock, context.log);
    this.#forwarding = new ForwardingRules(context);
    this.#sourceAddressFilter = new SourceAddressFilter({ ...context, bridge: config.bridge, enabled: config.sourceAddressFilter });
    this.#routes = routes;
    this.#dataDir = context.dataDir;
    this.#log = context.log;
    this.#ipamDir = config.ipamDir ?? join(context.dataDir, 'ipam');
    this.#attachments = new Attachments({
      name: 'network-bridge',
      directory: join(context.dataDir, 'attachments'),
      chain: this.#chain,
      parallel,
      graceMs: config.gcGraceSeconds * 1000,
      context,
      foreign: () => this.#leases(),
      attached: (result) => this.#sourceAddressFilter.add(result),
      detached: (result) => this.#sourceAddressFilter.remove(result),
      namespaceGone: (result) => removeHostInterfaces(context.clock, result),
    });
  }

  async start(): Promise<void> {
    const { confDir: directory, confFile: file } = this.#config;
    if (directory !== null) this.#claim = await ConflistClaim.take({ directory, file, dataDir: this.#dataDir });
    await mkdir(this.#ipamDir, { recursive: true, mode: 0o700 });
    await this.#attachments.load();
  }

  async stop(): Promise<void> {
    // an interrupted setup would write the conflist after the claim of its directory has ended
    this.#stopping.abort(new NetworkError('TryAgain', 'the network is stopping'));
    await this.#setup;
    await this.#forwarding.stop();
    await this.#routes?.stop();
    await this.#claim?.release();
  }

  setup(node: NodeNetwork, { signal }: NetworkCallOptions = {}): Promise<void> {
    const setup = this.#configure(node, AbortSignal.any([this.#stopping.signal, ...(signal === undefined ? [] : [signal])]));
    this.#setup = setup.catch(() => undefined); // the caller already receives the rejection
    return setup;
  }

  async #configure(node: NodeNetwork, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { binDirs, confDir, confFile, name, bridge, hairpin, isGateway, ipMasq, routes } = this.#config;
    const mtu = this.#config.mtu ?? (routes === 'vxlan' ? (node.mtu ?? usualMtu) - vxlanOverhead : undefined);
    const { found, missing } = await findPlugins(binDirs, [...requiredPlugins, 'bandwidth']);
    const bandwidth = this.#config.bandwidth === 'on' || (this.#config.bandwidth === 'auto' && found.has('bandwidth'));
    const absent = missing.filter((type) => type !== 'bandwidth' || this.#config.bandwidth === 'on');
    if (absent.length > 0) throw new NetworkError('PluginMissing', `CNI plugins ${absent.join(', ')} not found in ${binDirs.join(', ')}`);
    this.#rejectForeignInterface(node);
    const families = new Set(node.podCIDRs.map(familyOf));
    const options = { name, bridge, hairpin, isGateway, bandwidth, ipamDir: this.#ipamDir, ...(mtu !== undefined && { mtu }) };
    networkPlugins({ ...options, ipMasq }, node); // rejects an invalid range before anything is changed
    const [versions, masquerading] = await Promise.all([
      this.#plugins.versions([...requiredPlugins, ...(bandwidth ? ['bandwidth'] : [])]),
      ipMasq ? this.#node.masquerade(bridge, node) : this.#node.removeMasquerade(bridge).then(() => true),
      this.#node.sysctls(families),
      this.#forwarding.accept(bridge, families),
      this.#sourceAddressFilter.restore(async () => ({ own: this.#attachments.results, ofRuntimes: await this.#resultsOfRuntimes() })),
    ]);
    const plugins = networkPlugins({ ...options, ipMasq: ipMasq && !masquerading }, node);
    signal.throwIfAborted();
    if (confDir !== null) {
      const gone = await writeConflist(
        { directory: confDir, file: confFile, dataDir: this.#dataDir },
        { cniVersion: versions.conflist, name, plugins },
      );
      if (gone.length > 0) this.#log.info({ gone, confDir }, 'removed the conflist of another network plugin of this node');
    }
    await this.#routes?.configure(node);
    this.#attachments.list = { cniVersion: versions.own, name, plugins };
    this.#size = node.podCIDRs.reduce((sum, cidr) => sum + addressesOf(cidr), 0n);
  }

  #rejectForeignInterface({ podCIDRs }: NodeNetwork): void {
    const { bridge, vxlan } = this.#config;
    const foreign = foreignInterface(podCIDRs, [bridge, vxlan.device], networkInterfaces());
    if (foreign === undefined) return;
    const { name, address, range } = foreign;
    throw new NetworkError(
      'Broken',
      `the interface ${name} has the address ${address} in ${range}, the range of this node's pods, so that the kernel has two routes to them: remove the interface (ip link delete ${name}) if its network is no longer used, or set networking.podCIDRs to another range`,
    );
  }

  add(attachment: Attachment, call: NetworkCallOptions = {}): Promise<NetworkResult> {
    return this.#attachments.add(attachment, call);
  }
  check(attachment: Attachment, call: NetworkCallOptions = {}): Promise<void> {
    return this.#attachments.check(attachment, call);
  }
  del(attachment: Attachment, call: NetworkCallOptions = {}): Promise<void> {
    return this.#attachments.del(attachment, call);
  }
  gc(valid: readonly AttachmentKey[], call: NetworkCallOptions = {}): Promise<void> {
    return this.#attachments.gc(valid, call);
  }

  /** Adds the addresses of a sandbox that a container runtime attached to the source address filter. */
  async adopt(attachment: AttachmentKey): Promise<void> {
    if (!this.#sourceAddressFilter.isActive) return;
    const { cniCacheDir, name } = this.#config;
    const result = await cachedResult(cniCacheDir, name, attachment).catch((error: unknown) => {
      throw asNetworkError(error);
    });
    if (!result)
      throw new NetworkError(
        'Broken',
        `no CNI result of sandbox ${attachment.containerId} in ${cniCacheDir}/results: set cniCacheDir to the cache of the container runtime`,
      );
    await this.#sourceAddressFilter.addOfRuntime(result);
  }

  #leases() {
    return hostLocalLeases(join(this.#ipamDir, this.#config.name));
  }

  /** Returns the results of attachments that container runtimes made with the conflist. */
  async #resultsOfRuntimes(): Promise<readonly CniResult[]> {
    const own = new Set(this.#attachments.all.map(attachmentKey));
    const leases = (await this.#leases()).filter((lease) => !own.has(attachmentKey(lease)));
    const keys = [...new Map(leases.map((lease) => [attachmentKey(lease), lease])).values()]; // one lease per address family
    const results = await Promise.all(
      keys.map((key) =>
        cachedResult(this.#config.cniCacheDir, this.#config.name, key).catch((error: unknown) => {
          this.#log.warn({ containerId: key.containerId, error: String(error) }, 'the CNI result of a sandbox cannot be read');
          return undefined;
        }),
      ),
    );
    return results.filter((result) => result !== undefined);
  }

  async status(): Promise<{ readonly ready: boolean; readonly message: string }> {
    const { list } = this.#attachments;
    if (!list) return { ready: false, message: 'the network of the node is not set up yet' };
    const { binDirs, confDir, confFile, name } = this.#config;
    const { missing } = await findPlugins(binDirs, requiredPlugins);
    if (missing.length > 0) return { ready: false, message: `CNI plugins ${missing.join(', ')} not found in ${binDirs.join(', ')}` };
    try {
      await this.#chain.status(list);
    } catch (error) {
      return { ready: false, message: asNetworkError(error).message };
    }
    const other = confDir === null ? undefined : await conflistBefore(confDir, confFile);
    const used = await countLeases(join(this.#ipamDir, name));
    return {
      ready: true,
      message: `${used} of ${this.#size} addresses in use${other === undefined ? '' : `; runtimes that read ${confDir} load ${other} before ${confFile}`}`,
    };
  }
}

/** Returns the number of addresses of a CIDR that host-local assigns: all but the network, gateway and broadcast addresses. */
function addressesOf(cidr: string): bigint {
  const range = parseCIDR(cidr);
  const all = range === undefined ? 0n : cidrSize(range);
  return all > 3n ? all - 3n : 0n;
}
