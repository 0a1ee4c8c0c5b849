import { errorText } from '@oarlock/primitives/error-text';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { attachmentKey, type AttachmentKey } from '@oarlock/network-cni/cni/record-files';
import { annotationsCapability, CniError, validateNames, type CniCommand, type CniResult } from '@oarlock/network-cni/cni/protocol';
import { KeyedExecutor } from '@oarlock/network-cni/cni/keyed-executor';
import { NetworkError } from '@oarlock/spi/network';
import type { BlockAllocator } from '../ipam/block-allocator.ts';
import { gateways, type DataPlane } from '../dataplane/data-plane.ts';
import { hostInterfaceOf, type Endpoint, type EndpointRecords } from '../dataplane/endpoint-records.ts';
import { addressRequests, type Pool } from '../ipam/pools.ts';

/** The parameters of a CNI call: the environment variables without the prefix `CNI_`, and the parsed standard input. */
export interface CniRequest {
  readonly containerId: string;
  readonly ifName: string;
  readonly netns: string;
  readonly args: string;
  readonly config: Readonly<Record<string, unknown>>;
}
export interface CniHandlerOptions {
  /** Returns the allocator of this node; undefined before the first `setup`. Until then, CHECK and DEL use the endpoint records. */
  allocator(): BlockAllocator | undefined;
  readonly records: EndpointRecords;
  /** Returns the attachments that the kubelet created. The list of valid attachments that a runtime passes to GC does not contain them. */
  own(): readonly AttachmentKey[];
  readonly plane: DataPlane;
  readonly interfacePrefix: string;
  readonly clock: Clock;
  readonly log: Logger;
}
export interface ReadyNode {
  readonly pools: readonly Pool[];
  readonly mtu: number;
}
export const pluginType = 'oarlock-calico';
const parallel = 8;
/** Paths without quotes, backslashes and white space, because the interface name and namespace of an ADD become words of an `ip -batch` line. */
const path = /^\/[^\s"'\\]{1,4095}$/;

/** Performs the CNI 1.1 commands on this node, for the kubelet and for runtimes that call the executable. */
export class CniHandler {
  readonly #options: CniHandlerOptions;
  readonly #gate = new KeyedExecutor(parallel);
  /** The results of ADDs that this process completed, keyed by attachment. */
  readonly #results = new Map<string, CniResult>();
  ready: ReadyNode | undefined;

  constructor(options: CniHandlerOptions) {
    this.#options = options;
  }

  /**
   * Performs the CNI command of a runtime. GC keeps the kubelet's attachments, which the runtime's list of valid attachments does not contain.
   * @throws CniFault if the command fails
   */
  handleForRuntime(command: CniCommand, request: CniRequest): Promise<unknown> {
    return this.handle(command, request, command === 'GC' ? this.#options.own() : []);
  }

  /** Performs a CNI command and returns the value that the CNI plugin prints. GC keeps the attachments in `spared`. @throws CniFault if it fails */
  async handle(command: CniCommand, request: CniRequest, spared: readonly AttachmentKey[] = []): Promise<unknown> {
    try {
      switch (command) {
        case 'ADD':
          return await this.#keyed(request, () => this.#add(request));
        case 'CHECK':
          return await this.#keyed(request, () => this.#check(request));
        case 'DEL':
          return await this.#keyed(request, () => this.#del(request));
        case 'GC':
          return await this.#gc(request.config['cni.dev/valid-attachments'], spared);
        case 'STATUS':
          if (!this.ready) throw new CniError(pluginType, { command, cniCode: 50, message: 'the network of the node is not set up yet' });
          return undefined;
        default:
          return { cniVersion: '1.1.0', supportedVersions: ['0.3.1', '0.4.0', '1.0.0', '1.1.0'] };
      }
    } catch (error) {
      throw faultOf(command, error);
    }
  }

  async #keyed<T>(request: CniRequest, work: () => Promise<T>): Promise<T> {
    validateNames(request);
    return this.#gate.run(attachmentKey(request), work);
  }

  async #add(request: CniRequest): Promise<CniResult> {
    const { records, plane, interfacePrefix, clock, log } = this.#options;
    const { ready } = this;
    const allocator = this.#options.allocator();
    if (!ready || !allocator) throw new NetworkError('TryAgain', 'the network of the node is not set up yet');
    if (!path.test(request.netns))
      throw new NetworkError('InvalidConfig', `not a path of a network namespace: ${JSON.stringify(request.netns)}`);
    const key = attachmentKey(request);
    const known = records.get(request);
    const previous = this.#results.get(key);
    if (known?.netns === request.netns && previous) return previous;
    if (known) await this.#remove(known); // an earlier ADD was interrupted, or the sandbox was recreated
    const hostInterface = hostInterfaceOf(interfacePrefix, request);
    const ips: string[] = [];
    const endpoint: Endpoint = {
      containerId: request.containerId,
      ifName: request.ifName,
      netns: request.netns,
      hostInterface,
      ips,
      pod: podOf(request.args),
      since: clock.now(),
    };
    try {
      for (const addressRequest of addressRequests(ready.pools, annotationsOf(request.config)))
        ips.push(await allocator.allocate(addressRequest, key));
      await records.put(endpoint);
      await plane.disconnect(hostInterface); // its record may have been lost
      await plane.connect(endpoint, ready.mtu);
    } catch (error) {
      await this.#remove(endpoint).catch((failure: unknown) =>
        log.warn({ containerId: request.containerId, error: String(failure) }, 'could not clean up after a failed ADD; GC retries'),
      );
      throw error;
    }
    const result = resultOf(endpoint, request.config['cniVersion']);
    this.#results.set(key, result);
    return result;
  }

  async #check(request: CniRequest): Promise<void> {
    const endpoint = this.#options.records.get(request);
    if (!endpoint) throw new NetworkError('Broken', `${request.containerId} is not connected`);
    await this.#options.plane.check(endpoint);
  }

  async #del(request: CniRequest): Promise<void> {
    const { records, plane, interfacePrefix } = this.#options;
    const endpoint = records.get(request);
    if (endpoint) await this.#remove(endpoint);
    else await plane.disconnect(hostInterfaceOf(interfacePrefix, request)); // its record may have been lost
  }

  /** Deletes the interface of an endpoint, and releases its addresses afterwards, so that no pod sends from a released address. */
  async #remove(endpoint: Endpoint): Promise<void> {
    const { records, plane } = this.#options;
    await plane.disconnect(endpoint.hostInterface);
    this.#results.delete(attachmentKey(endpoint));
    await records.remove(endpoint);
    const allocator = this.#options.allocator();
    for (const ip of endpoint.ips) allocator?.release(ip, attachmentKey(endpoint));
  }

  async #gc(valid: unknown, spared: readonly AttachmentKey[]): Promise<void> {
    if (!Array.isArray(valid)) throw new NetworkError('InvalidConfig', 'cni.dev/valid-attachments: not a list');
    const listed = valid as readonly { readonly containerID?: unknown; readonly ifname?: unknown }[];
    const keep = new Set([...listed.map(({ containerID, ifname }) => `${containerID}~${ifname}`), ...spared.map(attachmentKey)]);
    const failures: unknown[] = [];
    for (const endpoint of this.#options.records.all) {
      const key = attachmentKey(endpoint);
      if (keep.has(key) || this.#gate.isBusy(key)) continue;
      await this.#gate.run(key, () => this.#remove(endpoint)).catch((error: unknown) => void failures.push(error));
    }
    if (failures.length > 0) throw failures[0];
  }
}

function annotationsOf(config: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const annotations = (config['runtimeConfig'] as Readonly<Record<string, unknown>> | undefined)?.[annotationsCapability];
  return typeof annotations === 'object' && annotations !== null ? (annotations as Readonly<Record<string, string>>) : {};
}

function podOf(args: string): string {
  const values = new Map(args.split(';').map((pair) => [pair.split('=')[0], pair.slice(pair.indexOf('=') + 1)]));
  return `${values.get('K8S_POD_NAMESPACE') ?? ''}/${values.get('K8S_POD_NAME') ?? ''}`.slice(0, 400);
}

function resultOf({ hostInterface, ifName, netns, ips }: Endpoint, version: unknown): CniResult {
  const of = (ip: string) =>
    ip.includes(':')
      ? ({ bits: 128, gateway: gateways[6], all: '::/0' } as const)
      : ({ bits: 32, gateway: gateways[4], all: '0.0.0.0/0' } as const);
  return {
    cniVersion: typeof version === 'string' ? version : '1.0.0',
    interfaces: [{ name: hostInterface }, { name: ifName, sandbox: netns }],
    ips: ips.map((ip) => ({ address: `${ip}/${of(ip).bits}`, gateway: of(ip).gateway, interface: 1 })),
    routes: ips.map((ip) => ({ dst: of(ip).all, gw: of(ip).gateway })),
    dns: {},
  };
}

/** The error codes of the CNI specification 1.1, section 5, "Error". Codes from 100 are specific to this plugin. */
const codes = { InvalidConfig: 7, TryAgain: 11, Exhausted: 100, Broken: 101, PluginMissing: 102, PluginFailed: 999 } as const;
function faultOf(command: CniCommand, error: unknown): CniError {
  if (error instanceof CniError) return error;
  const code = error instanceof NetworkError ? codes[error.code] : 999;
  // callers recognize an exhausted range by this text, as host-local prints it
  const prefix = error instanceof NetworkError && error.code === 'Exhausted' ? 'no IP addresses available: ' : '';
  return new CniError(pluginType, { command, cniCode: code, message: `${prefix}${errorText(error)}` });
}
