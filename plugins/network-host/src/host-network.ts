import { join } from 'node:path';
import type { Lifecycle, PluginContext } from '@oarlock/kernel/plugin';
import { removeConflists } from '@oarlock/network-cni/cni/conflist';
import {
  NetworkError,
  type Attachment,
  type NetworkCallOptions,
  type NetworkDriver,
  type NetworkResult,
  type NodeNetwork,
} from '@oarlock/spi/network';
import { AddressPool } from './address-pool.ts';
import { AllocationFiles } from './allocation-files.ts';
import { formatAddress, isLoopbackRange, loopbackRange, parseAddress } from './loopback-range.ts';

export interface HostNetworkOptions {
  /** The range for a node whose pod CIDRs are not in 127.0.0.0/8. */
  readonly podCIDR: string;
  readonly serviceCIDR: string;
  /** The directory from which the conflists of this node's other network plugins are removed; null to remove none. */
  readonly confDir: string | null;
  /** Returns true if a server can listen on this address. */
  canBind(address: string): Promise<boolean>;
}
interface HeldAddress {
  readonly address: string;
  readonly pod: Attachment['pod'];
}
type Key = Pick<Attachment, 'containerId' | 'ifName'>;

const keyOf = ({ containerId, ifName }: Key) => `${containerId} ${ifName}`;

/** A network in which pods share the host's network. Each pod has its own loopback address if the platform can bind any loopback address. */
export class HostNetwork implements NetworkDriver, Lifecycle {
  readonly traits: NetworkDriver['traits'];
  readonly #options: HostNetworkOptions;
  readonly #context: Pick<PluginContext, 'log' | 'dataDir'>;
  readonly #files: AllocationFiles;
  readonly #pool = new AddressPool();
  readonly #held = new Map<string, HeldAddress>();
  /** The latest operation on each attachment, which the next operation on the attachment waits for. */
  readonly #busy = new Map<string, Promise<unknown>>();
  #mode: 'unset' | 'own' | 'shared' = 'unset';

  constructor(options: HostNetworkOptions, context: Pick<PluginContext, 'log' | 'dataDir'>) {
    this.traits = { namespace: 'node', podCIDR: options.podCIDR, serviceCIDR: options.serviceCIDR };
    this.#options = options;
    this.#context = context;
    this.#files = new AllocationFiles(join(context.dataDir, 'allocations'));
  }

  async start(): Promise<void> {
    for (const [address, { containerId, ifName, pod }] of await this.#files.load()) {
      const key = keyOf({ containerId, ifName });
      if (this.#held.has(key)) {
        // the process crashed between two files of one attachment
        await this.#files.release(address);
        continue;
      }
      this.#held.set(key, { address, pod });
      this.#pool.hold(parseAddress(address) ?? 0);
    }
  }

  async setup(node: NodeNetwork, { signal }: NetworkCallOptions = {}): Promise<void> {
    signal?.throwIfAborted();
    const own = node.podCIDRs.filter(isLoopbackRange);
    const foreign = node.podCIDRs.filter((cidr) => !isLoopbackRange(cidr));
    if (foreign.length > 0)
      this.#context.log.info(
        { podCIDRs: foreign, range: own[0] ?? this.#options.podCIDR },
        "the node's pod CIDRs are not loopback addresses; using the configured range",
      );
    const ranges = (own.length > 0 ? own : [this.#options.podCIDR]).map(loopbackRange);
    this.#pool.use(ranges);
    await this.#removeConflists();
    this.#mode = (await this.#options.canBind(formatAddress(ranges[0]?.first ?? 0))) ? 'own' : 'shared';
  }

  async add(attachment: Attachment, { signal }: NetworkCallOptions = {}): Promise<NetworkResult> {
    validateNames(attachment);
    if (attachment.netns !== undefined)
      throw new NetworkError(
        'InvalidConfig',
        'network-host supports only sandboxes in the network namespace of the node; this sandbox has its own',
      );
    if (this.#mode === 'unset') throw new NetworkError('TryAgain', 'network-host: the network of the node is not set up yet');
    signal?.throwIfAborted();
    if (this.#mode === 'shared') return { ips: ['127.0.0.1'] };
    const key = keyOf(attachment);
    return this.#serialize(key, async () => {
      signal?.throwIfAborted();
      const known = this.#held.get(key);
      if (known) return { ips: [known.address] };
      const address = await this.#claim(attachment);
      this.#held.set(key, { address, pod: attachment.pod });
      return { ips: [address] };
    });
  }

  async check(attachment: Attachment): Promise<void> {
    validateNames(attachment);
    if (this.#mode === 'shared') return;
    const known = this.#held.get(keyOf(attachment));
    if (!known) throw new NetworkError('Broken', `${attachment.containerId} has no address`);
    if (!(await this.#files.has(known.address, attachment)))
      throw new NetworkError('Broken', `the record of ${known.address} for ${attachment.containerId} does not exist`);
  }

  async del(attachment: Attachment): Promise<void> {
    validateNames(attachment);
    await this.#release(keyOf(attachment));
  }

  async status(): Promise<{ readonly ready: boolean; readonly message: string }> {
    if (this.#mode === 'unset') return { ready: false, message: 'the network of the node is not set up yet' };
    if (this.#mode === 'shared')
      return { ready: true, message: 'this platform binds only 127.0.0.1: all pods share that address and its ports' };
    return { ready: true, message: `${this.#pool.allocated} of ${this.#pool.size} addresses in use` };
  }

  async gc(valid: readonly Key[]): Promise<void> {
    const keep = new Set(valid.map(keyOf));
    await Promise.all([...this.#held.keys()].filter((key) => !keep.has(key)).map((key) => this.#release(key)));
  }

  /** Removes the conflists of this node's other network plugins, because runtimes would use them. Skips directories that cannot be read. */
  async #removeConflists(): Promise<void> {
    const { confDir } = this.#options;
    const { dataDir, log } = this.#context;
    if (confDir === null) return;
    try {
      const gone = await removeConflists({ directory: confDir, dataDir });
      if (gone.length > 0) log.info({ gone, confDir }, 'removed the conflist of another network plugin of this node');
    } catch (error) {
      log.warn({ confDir, error: String(error) }, 'could not check for conflists of other network plugins');
    }
  }

  async #claim(attachment: Attachment): Promise<string> {
    for (;;) {
      const value = this.#pool.take();
      if (value === undefined) throw new NetworkError('Exhausted', `all ${this.#pool.size} addresses of this node are in use`);
      const address = formatAddress(value);
      try {
        const { containerId, ifName, pod } = attachment;
        if (await this.#files.claim(address, { containerId, ifName, pod })) return address;
      } catch (cause) {
        this.#pool.free(value);
        throw new NetworkError('PluginFailed', `cannot record ${address} for ${attachment.containerId}: ${(cause as Error).message}`, {
          cause,
        });
      }
      // allocated by another process with the same directory
    }
  }

  #release(key: string): Promise<void> {
    return this.#serialize(key, async () => {
      const known = this.#held.get(key);
      if (!known) return;
      await this.#files.release(known.address);
      this.#held.delete(key);
      this.#pool.free(parseAddress(known.address) ?? 0);
    });
  }

  /** Runs operations on the same attachment one after the other. */
  async #serialize<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#busy.get(key);
    const run = before ? before.then(work, work) : work();
    this.#busy.set(key, run);
    try {
      return await run;
    } finally {
      if (this.#busy.get(key) === run) this.#busy.delete(key);
    }
  }
}

/** Validates a container id and an interface name (CNI specification 1.1, section 2). */
function validateNames({ containerId, ifName }: Key): void {
  if (!/^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,252}$/.test(containerId))
    throw new NetworkError('InvalidConfig', `invalid container id: ${JSON.stringify(containerId)}`);
  if (!/^[^/:\s]{1,15}$/.test(ifName) || ifName === '.' || ifName === '..')
    throw new NetworkError('InvalidConfig', `invalid interface name: ${JSON.stringify(ifName)}`);
}
