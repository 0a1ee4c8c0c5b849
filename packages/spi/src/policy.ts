import { slot } from '@oarlock/kernel/slot';
import type { NetworkCall } from './network.ts';

/** A pod whose network is there and in which nothing runs yet. */
export interface ProtectedPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly ips: readonly string[];
}

/**
 * Lets through what the cluster's NetworkPolicies allow and nothing else, on one node, with every network plugin.
 *
 * Promises: a policy holds for a pod before its first process starts (`protect`), a change of policies, labels or addresses reaches the
 * kernel in one step, and a connection that is established is not cut. What was in force stays in force while the process is away.
 */
export interface NetworkPolicies {
  /** Begins to follow the pods of this node. Called once, before any `protect`; does not wait for the cluster. */
  guard(nodeName: string): void;
  /**
   * Resolves when the policies that were written before this call hold for the pod's addresses, or, where the API does not answer, those that are
   * known; rejects when they could not be put in force. Idempotent.
   */
  protect(pod: ProtectedPod, call?: NetworkCall): Promise<void>;
}

export const Policy = slot.one<NetworkPolicies>('policy/v1');
