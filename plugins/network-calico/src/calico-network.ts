import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { nodes } from '@oarlock/api/resources';
import type { Lifecycle, PluginContext } from '@oarlock/kernel/plugin';
import { Attachments } from '@oarlock/network-cni/cni/attachments';
import { attachmentKey, type AttachmentKey } from '@oarlock/network-cni/cni/record-files';
import { CniChain } from '@oarlock/network-cni/cni/chain';
import { CniPlugins, findPlugins, type CniCall } from '@oarlock/network-cni/cni/plugins';
import type { CniCommand } from '@oarlock/network-cni/cni/protocol';
import { conflistBefore, writeConflist } from '@oarlock/network-cni/cni/conflist';
import { ConflistClaim } from '@oarlock/network-cni/cni/conflist-claim';
import { NodePeers } from '@oarlock/network-cni/routing/node-peers';
import { ForwardingRules } from '@oarlock/network-cni/routing/forwarding';
import { isNamespace } from '@oarlock/network-cni/cni/net-namespace';
import { NodeSetup } from '@oarlock/network-cni/routing/node-setup';
import type { Client, Informers } from '@oarlock/spi/client';
import {
  NetworkError,
  type Attachment,
  type NetworkCallOptions,
  type NetworkDriver,
  type NetworkResult,
  type NodeNetwork,
} from '@oarlock/spi/network';
import { BlockAllocator } from './ipam/block-allocator.ts';
import { BlockPeers } from './routing/block-peers.ts';
import { ApiBlocks, LocalBlocks } from './ipam/block-store.ts';
import { chainedPlugins, supportedVersions, ownPlugin } from './cni/conflist-plugins.ts';
import { clientText, installClient } from './cni/cni-client.ts';
import { CniHandler, pluginType } from './cni/cni-handler.ts';
import { CniSocket, socketPath } from './cni/cni-socket.ts';
import type { CalicoConfig } from './config/calico-config.ts';
import { DataPlane } from './dataplane/data-plane.ts';
import { endpointRecords, type EndpointRecords } from './dataplane/endpoint-records.ts';
import { ipBlocks, type IPBlock } from './ipam/ip-block.ts';
import { applyRules, rulesOf } from './dataplane/node-rules.ts';
import { mtuOf } from './dataplane/mtu.ts';
import { poolsOf } from './ipam/pools.ts';
import { RouteManager } from './routing/route-manager.ts';

type Context = Pick<PluginContext, 'log' | 'clock' | 'tracer' | 'dataDir'>;
export interface Api {
  readonly client: Client;
  readonly informers: Informers;
}
const parallel = 8;

interface ActiveNode {
  readonly allocator: BlockAllocator;
  readonly socket: CniSocket;
  routes?: RouteManager;
  off?(): void;
}

/** What the network needs besides its config. */
export interface CalicoNetworkOptions {
  readonly traits: NetworkDriver['traits'];
  readonly context: Context;
  readonly api?: Api | undefined;
}

/** A network that connects each pod with a veth pair and host routes, without a bridge. IPAM assigns addresses from blocks of IP pools. */
export class CalicoNetwork implements NetworkDriver, Lifecycle {
  readonly traits: NetworkDriver['traits'];
  readonly #config: CalicoConfig;
  readonly #context: Context;
  readonly #api: Api | undefined;
  /** True if all nodes assign addresses from the same pools. */
  readonly #shared: boolean;
  readonly #plugins: CniPlugins;
  readonly #plane: DataPlane;
  readonly #records: EndpointRecords;
  readonly #attachments: Attachments;
  readonly #node: NodeSetup;
  readonly #forwarding: ForwardingRules;
  readonly #handler: CniHandler;
  #serving: ActiveNode | undefined;
  #claim: ConflistClaim | undefined;
  readonly #stopping = new AbortController();
  #setup: Promise<void> = Promise.resolve();

  constructor(config: CalicoConfig, { traits, context, api }: CalicoNetworkOptions) {
    this.traits = traits;
    this.#config = config;
    this.#context = context;
    this.#api = api;
    this.#shared = config.addresses === 'blocks' && api !== undefined;
    this.#plugins = new CniPlugins(context.clock, config.binDirs, config.timeoutSeconds * 1000);
    this.#plane = new DataPlane(context.clock);
    this.#records = endpointRecords(join(context.dataDir, 'endpoints'));
    this.#node = new NodeSetup(context.clock, context.log);
    this.#forwarding = new ForwardingRules(context);
    this.#handler = new CniHandler({
      allocator: () => this.#serving?.allocator,
      records: this.#records,
      own: () => this.#attachments.all,
      plane: this.#plane,
      interfacePrefix: config.interfacePrefix,
      clock: context.clock,
      log: context.log,
    });
    this.#attachments = new Attachments({
      name: 'network-calico',
      directory: join(context.dataDir, 'attachments'),
      chain: new CniChain({ run: (type, command, call) => this.#run(type, command, call) }, { loopback: false }),
      parallel,
      graceMs: config.gcGraceSeconds * 1000,
      context,
      foreign: () => Promise.resolve(this.#records.all),
    });
  }

  async start(): Promise<void> {
    const { confDir: directory, confFile: file } = this.#config;
    if (directory !== null) this.#claim = await ConflistClaim.take({ directory, file, dataDir: this.#context.dataDir });
    await this.#attachments.load();
    const broken = await this.#records.load();
    if (broken.length > 0) this.#context.log.warn({ broken }, 'endpoint records could not be read; their addresses are released');
  }

  async stop(): Promise<void> {
    // what an interrupted setup has opened would keep the process
    this.#stopping.abort(new NetworkError('TryAgain', 'the network is stopping'));
    await this.#setup;
    await this.#claim?.release();
    await this.#forwarding.stop();
    const serving = this.#serving;
    if (!serving) return;
    serving.off?.();
    await serving.socket.close();
    await serving.routes?.stop();
    await serving.allocator.whenIdle();
  }

  setup(node: NodeNetwork, { signal }: NetworkCallOptions = {}): Promise<void> {
    const setup = this.#configure(node, AbortSignal.any([this.#stopping.signal, ...(signal === undefined ? [] : [signal])]));
    this.#setup = setup.catch(() => undefined); // the caller already receives the rejection
    return setup;
  }

  async #configure(node: NodeNetwork, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { confDir, confFile, name, binDirs, interfacePrefix } = this.#config;
    const pools = poolsOf(
      this.#shared ? (this.#config.pools ?? node.clusterCIDRs.map((cidr) => ({ cidr }))) : node.podCIDRs.map((cidr) => ({ cidr })),
    );
    if (pools.length === 0) throw new NetworkError('InvalidConfig', 'the node has no pod CIDR yet');
    const families = new Set(pools.map(({ range }) => range.family));
    const { found } = await findPlugins(binDirs, ['portmap', 'bandwidth']);
    const others = chainedPlugins(this.#config, new Set(found.keys()));
    const [mtu, versions] = await Promise.all([
      mtuOf(this.#context.clock, this.#config, node),
      others.length === 0 ? { own: '1.1.0', conflist: '1.0.0' } : this.#plugins.versions(others.map(({ type }) => type)),
      this.#node.sysctls(families),
      this.#forwarding.accept(`${interfacePrefix}+`, families),
      applyRules(this.#context.clock, rulesOf(interfacePrefix, pools, node.clusterCIDRs)),
    ]);
    if (!this.#serving) await this.#removeStaleRecords();
    signal.throwIfAborted();
    const serving = (this.#serving ??= this.#begin(node.nodeName));
    const { allocator, socket } = serving;
    await allocator.configure(
      pools,
      new Map(this.#records.all.flatMap((endpoint) => endpoint.ips.map((ip) => [ip, attachmentKey(endpoint)] as const))),
    );
    serving.routes ??= this.#follow(serving);
    await serving.routes.configure(node, pools);
    this.#handler.ready = { pools, mtu };
    await socket.listen();
    const plugins = [ownPlugin(socket.path), ...others];
    signal.throwIfAborted();
    if (confDir !== null) {
      const text = await clientText();
      await Promise.all((await existing(binDirs)).map((directory) => installClient(directory, text)));
      const { dataDir, log } = this.#context;
      const list = { cniVersion: versions.conflist, ...supportedVersions(versions), name, plugins };
      const gone = await writeConflist({ directory: confDir, file: confFile, dataDir }, list);
      if (gone.length > 0) log.info({ gone, confDir }, 'removed the conflist of another network plugin of this node');
    }
    this.#attachments.list = { cniVersion: versions.own, name, plugins };
  }

  add(attachment: Attachment, call?: NetworkCallOptions): Promise<NetworkResult> {
    return this.#attachments.add(attachment, call);
  }
  check(attachment: Attachment, call?: NetworkCallOptions): Promise<void> {
    return this.#attachments.check(attachment, call);
  }
  del(attachment: Attachment, call?: NetworkCallOptions): Promise<void> {
    return this.#attachments.del(attachment, call);
  }
  gc(valid: readonly AttachmentKey[], call?: NetworkCallOptions): Promise<void> {
    return this.#attachments.gc(valid, call);
  }

  async status(): Promise<{ readonly ready: boolean; readonly message: string }> {
    const { confDir, confFile } = this.#config;
    if (!this.#attachments.list || !this.#serving) return { ready: false, message: 'the network of the node is not set up yet' };
    const other = confDir === null ? undefined : await conflistBefore(confDir, confFile);
    const { used, ranges } = this.#serving.allocator;
    return {
      ready: true,
      message: `${used} addresses in use, of ${ranges.join(', ') || 'no block'}${other === undefined ? '' : `; runtimes that read ${confDir} load ${other} before ${confFile}`}`,
    };
  }

  #begin(nodeName: string): ActiveNode {
    const { log, clock, dataDir } = this.#context;
    const all = this.#api?.informers.forResource(nodes);
    const allocator = new BlockAllocator({
      store: this.#shared && this.#api ? new ApiBlocks(this.#api.client, nodeName) : new LocalBlocks(),
      node: nodeName,
      log,
      shared: this.#shared,
      isGone: (name) => all?.hasSynced === true && all.get(name) === undefined,
      changed: () => this.#serving?.routes?.changed(),
    });
    return { allocator, socket: new CniSocket(socketPath(dataDir), { handler: this.#handler, clock, log }) };
  }

  /**
   * Starts to follow the blocks and routes of the cluster. Must run after the API server serves ipblocks, because an informer of an unserved resource
   * would never sync.
   */
  #follow(serving: ActiveNode): RouteManager {
    const { log, clock, dataDir } = this.#context;
    const informers = this.#api?.informers;
    if (informers && this.#shared) {
      const see = (block: IPBlock) => serving.allocator.observe(block);
      serving.off = informers.forResource(ipBlocks).addEventHandler({ onAdd: see, onUpdate: see });
    }
    const peers = informers && (this.#shared ? new BlockPeers(informers) : new NodePeers(informers));
    return new RouteManager({ config: this.#config, allocator: serving.allocator, peers, informers, clock, log, dataDir });
  }

  /** Removes the records of endpoints that have neither a network namespace nor a host interface, because they precede the machine's last boot. */
  async #removeStaleRecords(): Promise<void> {
    for (const endpoint of this.#records.all) {
      if (!(await isNamespace(endpoint.netns)) && !(await this.#plane.has(endpoint.hostInterface))) await this.#records.remove(endpoint);
    }
  }

  #run(type: string, command: CniCommand, call: CniCall): Promise<unknown> {
    if (type !== pluginType) return this.#plugins.run(type, command, call);
    const { containerId = '', ifName = '', netns = '', args = '', stdin } = call;
    return this.#handler.handle(command, { containerId, ifName, netns, args, config: stdin as Readonly<Record<string, unknown>> });
  }
}

/** Returns the directories that exist; the first directory if none exists. */
async function existing(directories: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(
    directories.map((directory) =>
      access(directory).then(
        () => [directory],
        () => [],
      ),
    ),
  );
  return found.flat().length > 0 ? found.flat() : directories.slice(0, 1);
}
