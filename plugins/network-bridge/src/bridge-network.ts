import { access, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Lifecycle, PluginContext } from '@oarlock/kernel/plugin';
import { inSpan } from '@oarlock/kernel/tracing';
import {
  NetworkError,
  type Attachment,
  type NetworkCall,
  type NetworkDriver,
  type NetworkResult,
  type NodeNetwork,
} from '@oarlock/spi/network';
import { AttachmentRecords, keyOf, type AttachmentRecord } from './attachment-records.ts';
import { CniChain } from './cni-chain.ts';
import { CniPlugins, findPlugins } from './cni-plugins.ts';
import { CniFault, refuseBadNames, toNetworkError, toNetworkResult, type NetworkList } from './cni-protocol.ts';
import { removeHostInterfaces } from './host-interfaces.ts';
import { countLeases, hostLocalLeases } from './host-local-leases.ts';
import { conflistBefore, familyOf, networkPlugins, writeConflist } from './network-list.ts';
import { vxlanOverhead, type NodeRoutes } from './node-routes.ts';
import { NodeSetup } from './node-setup.ts';
import { WorkGate } from './work-gate.ts';

export interface BridgeNetworkConfig {
  readonly binDirs: readonly string[];
  /** Null: no conflist is written. */
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
}
type Key = Pick<Attachment, 'containerId' | 'ifName'>;
type Context = Pick<PluginContext, 'log' | 'clock' | 'tracer' | 'dataDir'>;

/** Plugins beside the bridge; more at once only wait for the kernel's and iptables' locks. */
const parallel = 8;
const usualMtu = 1500;
const requiredPlugins = ['bridge', 'host-local', 'portmap', 'loopback'];

/** The standard CNI plugins on a bridge: as a conflist for runtimes that call CNI themselves, by exec for the others. */
export class BridgeNetwork implements NetworkDriver, Lifecycle {
  readonly traits: NetworkDriver['traits'];
  readonly #config: BridgeNetworkConfig;
  readonly #context: Context;
  readonly #plugins: CniPlugins;
  readonly #chain: CniChain;
  readonly #records: AttachmentRecords;
  readonly #node: NodeSetup;
  readonly #routes: NodeRoutes | undefined;
  readonly #gate = new WorkGate(parallel);
  readonly #ipamDir: string;
  #list: NetworkList | undefined;
  #size = 0n;

  constructor(config: BridgeNetworkConfig, traits: NetworkDriver['traits'], context: Context, routes?: NodeRoutes) {
    this.traits = traits;
    this.#config = config;
    this.#context = context;
    this.#plugins = new CniPlugins(context.clock, config.binDirs, config.timeoutSeconds * 1000);
    this.#chain = new CniChain(this.#plugins);
    this.#records = new AttachmentRecords(join(context.dataDir, 'attachments'));
    this.#node = new NodeSetup(context.clock, context.log);
    this.#routes = routes;
    this.#ipamDir = config.ipamDir ?? join(context.dataDir, 'ipam');
  }

  async start(): Promise<void> {
    await mkdir(this.#ipamDir, { recursive: true, mode: 0o700 });
    const broken = await this.#records.load();
    if (broken.length > 0) this.#context.log.warn({ broken }, 'records of attachments could not be read; gc frees their addresses');
  }

  async stop(): Promise<void> {
    await this.#routes?.stop();
  }

  async setup(node: NodeNetwork, { signal }: NetworkCall = {}): Promise<void> {
    signal?.throwIfAborted();
    const { binDirs, confDir, confFile, name, bridge, hairpin, isGateway, ipMasq, routes } = this.#config;
    const mtu = this.#config.mtu ?? (routes === 'vxlan' ? (node.mtu ?? usualMtu) - vxlanOverhead : undefined);
    const { found, missing } = await findPlugins(binDirs, [...requiredPlugins, 'bandwidth']);
    const bandwidth = this.#config.bandwidth === 'on' || (this.#config.bandwidth === 'auto' && found.has('bandwidth'));
    const absent = missing.filter((type) => type !== 'bandwidth' || this.#config.bandwidth === 'on');
    if (absent.length > 0)
      throw new NetworkError('PluginMissing', `there are no CNI plugins ${absent.join(', ')} in ${binDirs.join(', ')}`);
    const families = new Set(node.podCIDRs.map(familyOf));
    const options = { name, bridge, hairpin, isGateway, bandwidth, ipamDir: this.#ipamDir, ...(mtu !== undefined && { mtu }) };
    networkPlugins({ ...options, ipMasq }, node); // refuses a bad range before anything is changed
    const [versions, masquerading] = await Promise.all([
      this.#plugins.versions([...requiredPlugins, ...(bandwidth ? ['bandwidth'] : [])]),
      ipMasq ? this.#node.masquerade(bridge, node) : this.#node.removeMasquerade(bridge).then(() => true),
      this.#node.sysctls(families),
      this.#node.acceptForwarding(bridge, families),
    ]);
    const plugins = networkPlugins({ ...options, ipMasq: ipMasq && !masquerading }, node);
    if (confDir !== null) await writeConflist(confDir, confFile, { cniVersion: versions.conflist, name, plugins });
    await this.#routes?.use(node);
    this.#list = { cniVersion: versions.own, name, plugins };
    this.#size = node.podCIDRs.reduce((sum, cidr) => sum + addressesOf(cidr), 0n);
  }

  async add(attachment: Attachment, { signal, cause }: NetworkCall = {}): Promise<NetworkResult> {
    refuseBadNames(attachment);
    const list = this.#list;
    if (!list) throw new NetworkError('TryAgain', 'network-bridge has not been told of its node yet');
    if (attachment.netns === undefined)
      throw new NetworkError('InvalidConfig', `sandbox ${attachment.containerId} has no network namespace to connect`);
    signal?.throwIfAborted();
    return this.#gate.run(keyOf(attachment), () =>
      inSpan(
        this.#context.tracer,
        'CNI ADD',
        { cause, attributes: { 'cni.network': list.name, 'cni.container': attachment.containerId } },
        async () => {
          signal?.throwIfAborted();
          const known = this.#records.get(attachment);
          if (known?.result) {
            if (known.attachment.netns === attachment.netns) return toNetworkResult(known.result);
            throw new NetworkError('Broken', `${attachment.containerId} is connected already, in namespace ${known.attachment.netns}`);
          }
          if (known) await this.#disconnect(known); // an earlier try was cut off
          const record: AttachmentRecord = { attachment, list };
          await this.#records.put(record);
          try {
            const result = await this.#chain.add(list, attachment, signal);
            await this.#records.put({ ...record, result });
            return toNetworkResult(result);
          } catch (error) {
            await this.#disconnect(record).catch((failure: unknown) =>
              this.#context.log.warn(
                { containerId: attachment.containerId, error: String(failure) },
                'what a failed ADD left could not be taken back; gc tries again',
              ),
            );
            throw networkError(error);
          }
        },
      ),
    );
  }

  async check(attachment: Attachment, { signal, cause }: NetworkCall = {}): Promise<void> {
    refuseBadNames(attachment);
    await this.#gate.run(keyOf(attachment), () =>
      inSpan(this.#context.tracer, 'CNI CHECK', { cause }, async () => {
        signal?.throwIfAborted();
        const record = this.#records.get(attachment);
        if (!record?.result) throw new NetworkError('Broken', `${attachment.containerId} is not connected`);
        if (attachment.netns !== undefined && attachment.netns !== record.attachment.netns)
          throw new NetworkError('Broken', `${attachment.containerId} is connected in namespace ${record.attachment.netns}`);
        await this.#chain.check(record.list, record.attachment, record.result).catch((error: unknown) => {
          throw networkError(error);
        });
      }),
    );
  }

  async del(attachment: Attachment, { cause }: NetworkCall = {}): Promise<void> {
    refuseBadNames(attachment);
    await this.#gate.run(keyOf(attachment), () =>
      inSpan(this.#context.tracer, 'CNI DEL', { cause }, async () => {
        const record = this.#records.get(attachment);
        if (record)
          await this.#disconnect(record).catch((error: unknown) => {
            throw networkError(error);
          });
        else if (this.#list)
          await this.#disconnect({ attachment, list: this.#list }, 'anyone').catch((error: unknown) => {
            throw networkError(error);
          });
      }),
    );
  }

  async status(): Promise<{ readonly ready: boolean; readonly message: string }> {
    if (!this.#list) return { ready: false, message: 'the node has not been set up yet' };
    const { binDirs, confDir, confFile, name } = this.#config;
    const { missing } = await findPlugins(binDirs, requiredPlugins);
    if (missing.length > 0) return { ready: false, message: `there are no CNI plugins ${missing.join(', ')} in ${binDirs.join(', ')}` };
    try {
      await this.#chain.status(this.#list);
    } catch (error) {
      return { ready: false, message: networkError(error).message };
    }
    const other = confDir === null ? undefined : await conflistBefore(confDir, confFile);
    const used = await countLeases(join(this.#ipamDir, name));
    return {
      ready: true,
      message: `${used} of ${this.#size} addresses in use${other === undefined ? '' : `; runtimes that read ${confDir} take ${other} before ${confFile}`}`,
    };
  }

  async gc(valid: readonly Key[], { cause }: NetworkCall = {}): Promise<void> {
    await this.#gate.exclusive(() =>
      inSpan(this.#context.tracer, 'CNI GC', { cause }, async () => {
        const keep = new Set(valid.map(keyOf));
        const failures: unknown[] = [];
        const free = (record: AttachmentRecord, of?: 'anyone') =>
          this.#disconnect(record, of).catch((error: unknown) => {
            failures.push(error);
          });
        const mine = this.#records.all;
        await inBatches(
          mine.filter(({ attachment }) => !keep.has(keyOf(attachment)) && !this.#gate.isBusy(keyOf(attachment))),
          (record) => free(record),
        );
        const list = this.#list;
        if (list) {
          // of those that a runtime made by the conflist we know only the addresses; a fresh one may not be in the caller's list yet
          const oldest = this.#context.clock.now() - this.#config.gcGraceSeconds * 1000;
          const known = new Set(mine.map(({ attachment }) => keyOf(attachment)));
          const foreign = (await hostLocalLeases(join(this.#ipamDir, list.name))).filter((lease) => !known.has(keyOf(lease)));
          const fresh = foreign.filter((lease) => !keep.has(keyOf(lease)) && lease.since > oldest);
          const stale = foreign.filter((lease) => !keep.has(keyOf(lease)) && lease.since <= oldest);
          await inBatches(stale, ({ containerId, ifName }) =>
            free({ list, attachment: { containerId, ifName, pod: { namespace: '', name: '', uid: '' }, portMappings: [] } }, 'anyone'),
          );
          const busy = mine.map(({ attachment }) => attachment).filter((attachment) => this.#gate.isBusy(keyOf(attachment)));
          await this.#chain.gc(list, [...valid, ...fresh, ...busy]).catch((error: unknown) => {
            failures.push(error);
          });
        }
        if (failures.length > 0) throw networkError(failures[0]);
      }),
    );
  }

  /** DEL, as often as needed: also when the namespace is gone, or was never made. */
  async #disconnect({ attachment, list, result }: AttachmentRecord, of: 'ours' | 'anyone' = 'ours'): Promise<void> {
    const { netns, ...rest } = attachment;
    const there =
      netns !== undefined &&
      (await access(netns).then(
        () => true,
        () => false,
      ));
    await this.#chain.del(list, there ? attachment : rest, of, result);
    if (!there && result) await removeHostInterfaces(this.#context.clock, result);
    await this.#records.remove(attachment);
  }
}

async function inBatches<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  for (let start = 0; start < items.length; start += parallel) await Promise.all(items.slice(start, start + parallel).map(work));
}

/** host-local gives out neither the network's address, nor the gateway's, nor the broadcast address. */
function addressesOf(cidr: string): bigint {
  const bits = BigInt((familyOf(cidr) === 4 ? 32 : 128) - Number(cidr.split('/')[1]));
  const all = 2n ** bits;
  return all > 3n ? all - 3n : 0n;
}

function networkError(error: unknown): Error {
  if (error instanceof CniFault) return toNetworkError(error);
  if (error instanceof Error)
    return error instanceof NetworkError || error.name === 'AbortError'
      ? error
      : new NetworkError('PluginFailed', error.message, { cause: error });
  return new NetworkError('PluginFailed', String(error));
}
