import type { Pod } from '@oarlock/api/types/core-v1';
import { objectKey } from '@oarlock/api/object';
import type { PodInfo } from '@oarlock/spi/scheduling';
import { podInfo } from './amounts.ts';

export const priorityOf = ({ pod }: PodInfo): number => pod.spec?.priority ?? 0;

/** Pods for which room was made on a node that they are not on yet. */
export class Nominations {
  readonly #nodeOf = new Map<string, string>();
  readonly #byNode = new Map<string, Map<string, PodInfo>>();

  nodeOf(key: string): string | undefined {
    return this.#nodeOf.get(key);
  }
  on(node: string): readonly PodInfo[] {
    return [...(this.#byNode.get(node)?.values() ?? [])];
  }
  /** Those on a node that matter at least as much as a pod, without itself. Undefined when there are none. */
  ahead(node: string, pod: PodInfo): readonly PodInfo[] | undefined {
    if (this.#byNode.size === 0) return undefined;
    const found = this.on(node).filter((other) => other.key !== pod.key && priorityOf(other) >= priorityOf(pod));
    return found.length === 0 ? undefined : found;
  }

  set(pod: PodInfo, node: string): void {
    this.delete(pod.key);
    // a copy: the queue changes its own
    const { key, requests, nonZeroRequests } = pod;
    const at = this.#byNode.get(node) ?? new Map<string, PodInfo>();
    at.set(key, { pod: pod.pod, key, requests, nonZeroRequests });
    this.#byNode.set(node, at);
    this.#nodeOf.set(key, node);
  }

  /** Whether room was kept for it. */
  delete(key: string): boolean {
    const node = this.#nodeOf.get(key);
    if (node === undefined) return false;
    this.#nodeOf.delete(key);
    const at = this.#byNode.get(node);
    at?.delete(key);
    if (at?.size === 0) this.#byNode.delete(node);
    return true;
  }

  /** What the object says; a nomination that is not written yet stays. Whether one that was there is no more. */
  changed(pod: Pod, old: Pod | undefined): boolean {
    const node = pod.status?.nominatedNodeName ?? '';
    const before = old?.status?.nominatedNodeName ?? '';
    if (node !== '') this.set(podInfo(pod), node);
    else if (before !== '') this.delete(objectKey(pod));
    return before !== '' && before !== node;
  }
}
