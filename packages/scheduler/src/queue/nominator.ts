import type { Pod } from '@oarlock/api/types/core-v1';
import { objectKey } from '@oarlock/api/object';
import type { PodInfo } from '@oarlock/spi/scheduling';
import { newPodInfo, priorityOf } from '../pod-info/pod-info.ts';

/** The pods that are nominated to a node and not yet assumed on it (upstream's nominator). */
export class Nominator {
  readonly #nodeOf = new Map<string, string>();
  readonly #byNode = new Map<string, Map<string, PodInfo>>();

  nominatedNodeName(key: string): string | undefined {
    return this.#nodeOf.get(key);
  }
  nominatedPodsForNode(node: string): readonly PodInfo[] {
    return [...(this.#byNode.get(node)?.values() ?? [])];
  }
  /** Returns the other pods nominated to a node whose priority is at least that of `pod`, or undefined if there are none. */
  higherPriorityPods(node: string, pod: PodInfo): readonly PodInfo[] | undefined {
    if (this.#byNode.size === 0) return undefined;
    const found = this.nominatedPodsForNode(node).filter((other) => other.key !== pod.key && priorityOf(other) >= priorityOf(pod));
    return found.length === 0 ? undefined : found;
  }

  addNominatedPod(pod: PodInfo, node: string): void {
    this.deleteNominatedPod(pod.key);
    // a copy, because the queue mutates its objects
    const { key, requests, nonZeroRequests } = pod;
    const pods = this.#byNode.get(node) ?? new Map<string, PodInfo>();
    pods.set(key, { pod: pod.pod, key, requests, nonZeroRequests });
    this.#byNode.set(node, pods);
    this.#nodeOf.set(key, node);
  }

  /** Removes the nomination of a pod. Returns true if the pod was nominated. */
  deleteNominatedPod(key: string): boolean {
    const node = this.#nodeOf.get(key);
    if (node === undefined) return false;
    this.#nodeOf.delete(key);
    const pods = this.#byNode.get(node);
    pods?.delete(key);
    if (pods?.size === 0) this.#byNode.delete(node);
    return true;
  }

  /**
   * Updates the nomination of a pod from `status.nominatedNodeName`. Keeps a nomination that is not written yet. Returns true if the previous
   * nomination has ended.
   */
  updateNominatedPod(pod: Pod, old: Pod | undefined): boolean {
    const node = pod.status?.nominatedNodeName ?? '';
    const before = old?.status?.nominatedNodeName ?? '';
    if (node !== '') this.addNominatedPod(newPodInfo(pod), node);
    else if (before !== '') this.deleteNominatedPod(objectKey(pod));
    return before !== '' && before !== node;
  }
}
