import { slot } from '@oarlock/kernel/slot';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { PortMapping } from '../runtime/runtime.ts';

/** Network configuration of a node, passed to `setup` before the first pod. */
export interface NodeNetwork {
  readonly nodeName: string;
  /** Address ranges for pods of this node: `spec.podCIDRs` of the Node. */
  readonly podCIDRs: readonly string[];
  readonly clusterCIDRs: readonly string[];
  readonly serviceCIDRs: readonly string[];
  readonly nodeIPs: readonly string[];
  readonly mtu?: number;
}

/** The name of a pod's interface in its network namespace, as CRI runtimes attach it by default. */
export const podInterface = 'eth0';

/** A network interface of one sandbox. `containerId` and `ifName` identify it, as in the CNI specification. */
export interface Attachment {
  readonly containerId: string;
  readonly ifName: string;
  /** Path of the network namespace; absent if the sandbox uses the node's network. */
  readonly netns?: string;
  /** True if the interface `lo` of the namespace is up, so that no plugin has to do it. */
  readonly loopbackUp?: boolean;
  readonly pod: { readonly namespace: string; readonly name: string; readonly uid: string };
  readonly portMappings: readonly PortMapping[];
  readonly bandwidth?: { readonly ingressBits?: number; readonly egressBits?: number };
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface NetworkResult {
  /** Addresses without prefix length. The first is the pod's primary address. */
  readonly ips: readonly string[];
  readonly gateway?: string;
}

export interface NetworkCallOptions {
  readonly signal?: AbortSignal;
  readonly spanContext?: SpanContext | undefined;
}

/**
 * A network plugin with the operations of CNI 1.1.
 *
 * Guaranteed, and tested by the contract suite:
 *
 * - `del` is idempotent and succeeds if the attachment, its namespace or the whole setup does not exist;
 * - a second `add` of an attachment returns the same result or rejects; it never assigns a second address;
 * - no address is assigned twice, also with concurrent `add` calls and after a SIGKILL during `add`;
 * - `gc` frees the addresses of all attachments that the caller no longer lists;
 * - an aborted `add` leaves nothing that a following `del` does not remove.
 *
 * Not guaranteed: that an address is reused soon, or in any order.
 *
 * All methods throw `NetworkError`. The kubelet retries after every error.
 */
export interface NetworkDriver {
  readonly traits: {
    /**
     * `pod`: every sandbox has its own network namespace. `node`: sandboxes share the node's network namespace; the kubelet calls `add` to get the
     * address.
     */
    readonly namespace: 'pod' | 'node';
    /**
     * True if addresses do not come from the node's pod CIDRs. `setup` is then called immediately, with empty `podCIDRs` until the Node has pod
     * CIDRs.
     */
    readonly ownAddresses?: boolean;
    /** Default pod CIDRs if `cluster.yaml` sets none. */
    readonly podCIDR: string;
    readonly serviceCIDR: string;
  };
  /**
   * Prepares the node: bridges, routes, and a conflist for container runtimes that call CNI plugins themselves. May be called again with changed
   * values.
   */
  setup(node: NodeNetwork, call?: NetworkCallOptions): Promise<void>;
  /**
   * Attaches a sandbox and returns its addresses.
   * @throws NetworkError `Exhausted` if no address is free; `InvalidConfig` if a name is invalid
   */
  add(attachment: Attachment, call?: NetworkCallOptions): Promise<NetworkResult>;
  /**
   * Called for a sandbox that a container runtime attached with the conflist, before any container of the sandbox starts, for what the CNI plugins do not
   * do. If it rejects, the kubelet removes the sandbox. There is no call when the runtime detaches the sandbox.
   */
  adopt?(attachment: Pick<Attachment, 'containerId' | 'ifName'>, call?: NetworkCallOptions): Promise<void>;
  /** Verifies that an attachment is still as `add` created it. @throws NetworkError `Broken` if the attachment has changed */
  check(attachment: Attachment, call?: NetworkCallOptions): Promise<void>;
  /** Detaches a sandbox and frees its addresses. */
  del(attachment: Attachment, call?: NetworkCallOptions): Promise<void>;
  /** Reports whether `add` can succeed, with the reason if it cannot. */
  status(call?: NetworkCallOptions): Promise<{ readonly ready: boolean; readonly message: string }>;
  /** Frees all resources and addresses of attachments that are not in `valid`. */
  gc(valid: readonly Pick<Attachment, 'containerId' | 'ifName'>[], call?: NetworkCallOptions): Promise<void>;
}

const brand = Symbol.for('oarlock:NetworkError');

export type NetworkErrorCode = 'Exhausted' | 'InvalidConfig' | 'PluginMissing' | 'PluginFailed' | 'Broken' | 'TryAgain';
export class NetworkError extends Error {
  /** Makes `instanceof` work across two copies of this package: Oarlock's and a plugin's. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && brand in value;
  }
  get [brand](): true {
    return true;
  }
  override readonly name = 'NetworkError';
  readonly code: NetworkErrorCode;
  constructor(code: NetworkErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Plugins declare `{ namespace: 'pod' | 'node' }`. */
export const Network = slot.one<NetworkDriver>('network/v1');
