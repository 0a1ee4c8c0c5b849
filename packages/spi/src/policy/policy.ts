import { slot } from '@oarlock/kernel/slot';
import type { Health } from '../role/role.ts';
import type { NetworkCallOptions } from '../network/network.ts';

/** A pod whose network is set up and whose containers have not started. */
export interface ProtectedPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly ips: readonly string[];
}

/**
 * Enforces NetworkPolicies on one node, with any network plugin.
 *
 * Guaranteed:
 *
 * - a policy is enforced before the pod's first process starts (`protect`);
 * - a change of policies, labels or addresses takes effect atomically;
 * - established connections are not cut;
 * - the rules stay in force while the process is down.
 */
export interface NetworkPolicies {
  /**
   * Returns whether the NetworkPolicies of the cluster are known and enforced; the node is not ready until they are. Cheap and without side effects.
   * Absent if the plugin does not know.
   */
  checkHealth?(): Health;
  /** Starts watching the pods of this node. Called once, before any `protect`. Does not wait for the API server. */
  startForNode(nodeName: string): void;
  /**
   * Resolves when the NetworkPolicies that were written before this call are enforced for the pod's addresses; if the API server is unreachable, the
   * NetworkPolicies known so far. Idempotent. Rejects if the NetworkPolicies could not be enforced: the kubelet then does not start the pod.
   */
  protect(pod: ProtectedPod, call?: NetworkCallOptions): Promise<void>;
}

export const Policy = slot.one<NetworkPolicies>('policy/v1');
