import { join } from 'node:path';
import type { Lifecycle, PluginContext } from '@oarlock/kernel/plugin';
import { asNetworkError, Attachments } from '@oarlock/network-cni/cni/attachments';
import type { AttachmentKey } from '@oarlock/network-cni/cni/record-files';
import { CniChain } from '@oarlock/network-cni/cni/chain';
import { CniPlugins, findPlugins } from '@oarlock/network-cni/cni/plugins';
import { writeConflist } from '@oarlock/network-cni/cni/conflist';
import { ConflistClaim } from '@oarlock/network-cni/cni/conflist-claim';
import {
  NetworkError,
  type Attachment,
  type NetworkCallOptions,
  type NetworkDriver,
  type NetworkResult,
  type NodeNetwork,
} from '@oarlock/spi/network';
import { chainedPlugins, upstreamPlugin } from './cni/conflist-plugins.ts';
import type { CalicoConfig } from './config/calico-config.ts';

const parallel = 8;
const required = ['calico', 'portmap', 'loopback'];
/** The CNI version in the conflist of Calico's manifests. */
const conflistVersion = '0.3.1';

/**
 * A network that Calico's own binaries provide. Writes a conflist for runtimes that call CNI themselves, and runs the binaries for all other
 * runtimes. Calico's calico-node manages routes and pools.
 */
export class UpstreamNetwork implements NetworkDriver, Lifecycle {
  readonly traits: NetworkDriver['traits'];
  readonly #config: CalicoConfig;
  readonly #plugins: CniPlugins;
  readonly #chain: CniChain;
  readonly #attachments: Attachments;
  readonly #dataDir: string;
  #claim: ConflistClaim | undefined;

  constructor(config: CalicoConfig, traits: NetworkDriver['traits'], context: Pick<PluginContext, 'log' | 'clock' | 'tracer' | 'dataDir'>) {
    this.traits = traits;
    this.#config = config;
    this.#dataDir = context.dataDir;
    this.#plugins = new CniPlugins(context.clock, config.binDirs, config.timeoutSeconds * 1000);
    this.#chain = new CniChain(this.#plugins);
    this.#attachments = new Attachments({
      name: 'network-calico',
      directory: join(context.dataDir, 'attachments'),
      chain: this.#chain,
      parallel,
      graceMs: config.gcGraceSeconds * 1000,
      context,
      // attachments of runtimes are in Calico's own datastore, where calico-kube-controllers collects them
      foreign: () => Promise.resolve([]),
    });
  }

  async start(): Promise<void> {
    const { confDir: directory, confFile: file } = this.#config;
    if (directory !== null) this.#claim = await ConflistClaim.take({ directory, file, dataDir: this.#dataDir });
    await this.#attachments.load();
  }
  async stop(): Promise<void> {
    // pods keep running and this driver has no background work
    await this.#claim?.release();
  }

  async setup(node: NodeNetwork, { signal }: NetworkCallOptions = {}): Promise<void> {
    signal?.throwIfAborted();
    const { upstream, binDirs, name, confDir, confFile } = this.#config;
    if (!upstream) throw new NetworkError('InvalidConfig', 'upstream is not configured');
    const { found, missing } = await findPlugins(binDirs, [...required, upstream.ipam, 'bandwidth']);
    const absent = missing.filter((type) => type !== 'bandwidth');
    if (absent.length > 0) throw new NetworkError('PluginMissing', `CNI plugins not found: ${absent.join(', ')} in ${binDirs.join(', ')}`);
    const plugins = [
      upstreamPlugin(upstream, node.nodeName, this.#config.mtu ?? node.mtu),
      ...chainedPlugins(this.#config, new Set(found.keys())),
    ];
    const { own } = await this.#plugins.versions(plugins.map(({ type }) => type));
    if (confDir !== null)
      await writeConflist({ directory: confDir, file: confFile, dataDir: this.#dataDir }, { cniVersion: conflistVersion, name, plugins });
    this.#attachments.list = { cniVersion: own, name, plugins };
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
    const { list } = this.#attachments;
    if (!list) return { ready: false, message: 'the network of the node is not set up yet' };
    try {
      await this.#chain.status(list);
    } catch (error) {
      return { ready: false, message: asNetworkError(error).message };
    }
    return { ready: true, message: "addresses are assigned by Calico's own IPAM" };
  }
}
