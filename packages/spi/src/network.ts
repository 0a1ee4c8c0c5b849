import { slot } from '@oarlock/kernel/slot';
import type { Cause } from '@oarlock/kernel/tracing';
import type { PortMapping } from './runtime.ts';

/** What a node tells its network plugin before the first pod. */
export interface NodeNetwork {
  readonly nodeName: string;
  /** Addresses for pods of this node, as the node's `spec.podCIDRs` says. */
  readonly podCIDRs: readonly string[];
  readonly clusterCIDRs: readonly string[];
  readonly serviceCIDRs: readonly string[];
  readonly nodeIPs: readonly string[];
  readonly mtu?: number;
}

/** One sandbox to be connected. `containerId` and `ifName` identify it, as in the CNI specification. */
export interface Attachment {
  readonly containerId: string;
  readonly ifName: string;
  /** A path to the network namespace; absent when the sandbox shares the node's. */
  readonly netns?: string;
  readonly pod: { readonly namespace: string; readonly name: string; readonly uid: string };
  readonly portMappings: readonly PortMapping[];
  readonly bandwidth?: { readonly ingressBits?: number; readonly egressBits?: number };
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface NetworkResult {
  /** Without prefix lengths; the first is the pod's primary address. */
  readonly ips: readonly string[];
  readonly gateway?: string;
}

export interface NetworkCall {
  readonly signal?: AbortSignal;
  readonly cause?: Cause | undefined;
}

/**
 * Connects sandboxes, the CNI 1.1 way.
 *
 * Promises of the contract suite: `del` is idempotent and succeeds on what is gone; `add` of the same attachment twice gives the same
 * result or refuses, never a second address; under parallel `add` and kill -9 no address is given twice, and `gc` frees what nobody holds.
 */
export interface NetworkDriver {
  readonly traits: {
    /** `pod`: a sandbox has a network namespace of its own. `node`: it shares the node's; the kubelet calls `add` for its address. */
    readonly namespace: 'pod' | 'node';
    /** Addresses come from elsewhere than the node's own range: `setup` is called at once, with `podCIDRs` empty until there are some. */
    readonly ownAddresses?: boolean;
    /** Default ranges when `cluster.yaml` names none. */
    readonly podCIDR: string;
    readonly serviceCIDR: string;
  };
  /** Writes the conflist for runtimes that call CNI themselves, makes bridges and routes. May be called again with new values. */
  setup(node: NodeNetwork, call?: NetworkCall): Promise<void>;
  /** @throws NetworkError */
  add(attachment: Attachment, call?: NetworkCall): Promise<NetworkResult>;
  /** @throws NetworkError `Broken` when the attachment is not as `add` left it */
  check(attachment: Attachment, call?: NetworkCall): Promise<void>;
  del(attachment: Attachment, call?: NetworkCall): Promise<void>;
  /** Ready to `add`; otherwise why not. */
  status(call?: NetworkCall): Promise<{ readonly ready: boolean; readonly message: string }>;
  /** Frees everything that belongs to none of these attachments. */
  gc(valid: readonly Pick<Attachment, 'containerId' | 'ifName'>[], call?: NetworkCall): Promise<void>;
}

const brand = Symbol.for('oarlock:NetworkError');

export type NetworkErrorCode = 'Exhausted' | 'InvalidConfig' | 'PluginMissing' | 'PluginFailed' | 'Broken' | 'TryAgain';
export class NetworkError extends Error {
  /** Two copies of this package, a plugin's and ours, agree on what a NetworkError is. */
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

/** Drivers declare `{ namespace: 'pod' | 'node' }`. */
export const Network = slot.one<NetworkDriver>('network/v1');
