import { own } from '@oarlock/api/json/json';
import { hostPorts } from '@oarlock/api/component-helpers/host-ports';
import type { Node, Pod, Taint } from '@oarlock/api/types/core-v1';
import type { ImageState, PodAffinityGroup, NodeInfo, PodInfo, PodSelector, Snapshot } from '@oarlock/spi/scheduling';
import { ImageStates } from './image-states.ts';
import { PodAffinityGroups } from './pod-affinity-groups.ts';
import { allocatableResources, newPodInfo, ResourceTotals } from '../pod-info/pod-info.ts';
import { PodCounts } from './pod-counts.ts';

const noTaints: readonly Taint[] = [];
const noImages: ReadonlyMap<string, number> = new Map();
const placeholderNode = (name: string): Node => ({ metadata: { name } });

/** A node with its pods. The node info does not change during a scheduling cycle, except while the cycle waits for an extender. */
export class CachedNodeInfo implements NodeInfo {
  readonly name: string;
  readonly pods: PodInfo[] = [];
  readonly requested = new ResourceTotals();
  readonly nonZeroRequested = new ResourceTotals();
  readonly #usedPorts = new Set<string>();
  /** The number of pods that use each host port. The number is briefly two if one of the pods is only assumed. */
  readonly #portCounts = new Map<string, number>();
  readonly #podIndex = new Map<string, number>();
  #node: Node;
  #allocatable = new ResourceTotals();
  #images = noImages;
  // the two label keys read last: each cycle reads the same keys of all nodes, whose label maps exceed the processor's cache
  #lastLabelKey = '';
  #lastLabelValue: string | undefined;
  #previousLabelKey = '';
  #previousLabelValue: string | undefined;
  taints: readonly Taint[] = noTaints;
  unschedulable = false;
  /** False if the cache has pods of the node but not the node itself. */
  hasNode = false;

  constructor(name: string) {
    this.name = name;
    this.#node = placeholderNode(name);
  }

  get node(): Node {
    return this.#node;
  }
  get allocatable(): ResourceTotals {
    return this.#allocatable;
  }
  get images(): ReadonlyMap<string, number> {
    return this.#images;
  }
  get usedPorts(): ReadonlySet<string> {
    return this.#usedPorts;
  }
  label(key: string): string | undefined {
    if (key === this.#lastLabelKey) return this.#lastLabelValue;
    if (key === this.#previousLabelKey) return this.#previousLabelValue;
    this.#previousLabelKey = this.#lastLabelKey;
    this.#previousLabelValue = this.#lastLabelValue;
    this.#lastLabelKey = key;
    this.#lastLabelValue = own(this.#node.metadata?.labels, key);
    return this.#lastLabelValue;
  }

  setNode(node: Node): void {
    const before = this.#node;
    this.#node = node;
    this.#lastLabelKey = '';
    this.#lastLabelValue = undefined;
    this.#previousLabelKey = '';
    this.#previousLabelValue = undefined;
    this.hasNode = true;
    this.taints = node.spec?.taints ?? noTaints;
    this.unschedulable = node.spec?.unschedulable === true;
    if (before.status?.allocatable !== node.status?.allocatable) this.#allocatable = allocatableResources(node.status?.allocatable);
    if (before.status?.images !== node.status?.images) {
      this.#images = new Map(
        (node.status?.images ?? []).flatMap(({ names, sizeBytes }) =>
          (names ?? []).map((name): [string, number] => [name, sizeBytes ?? 0]),
        ),
      );
    }
  }

  /** Returns a pod of the node by `namespace/name`. */
  pod(key: string): PodInfo | undefined {
    return this.pods[this.#podIndex.get(key) ?? -1];
  }

  addPod(pod: PodInfo): void {
    this.#podIndex.set(pod.key, this.pods.length);
    this.pods.push(pod);
    this.requested.add(pod.requests);
    this.nonZeroRequested.add(pod.nonZeroRequests);
    for (const port of hostPorts(pod.pod)) {
      this.#usedPorts.add(port);
      this.#portCounts.set(port, (this.#portCounts.get(port) ?? 0) + 1);
    }
  }

  removePod(key: string): PodInfo | undefined {
    const index = this.#podIndex.get(key);
    const pod = index === undefined ? undefined : this.pods[index];
    const last = this.pods.pop();
    if (index === undefined || pod === undefined || last === undefined) {
      if (last !== undefined) this.pods.push(last);
      return undefined;
    }
    this.#podIndex.delete(key);
    if (last !== pod) {
      this.pods[index] = last;
      this.#podIndex.set(last.key, index);
    }
    this.requested.add(pod.requests, -1);
    this.nonZeroRequested.add(pod.nonZeroRequests, -1);
    for (const port of hostPorts(pod.pod)) {
      const left = (this.#portCounts.get(port) ?? 1) - 1;
      this.#portCounts.set(port, left);
      if (left > 0) continue;
      this.#portCounts.delete(port);
      this.#usedPorts.delete(port);
    }
    return pod;
  }

  /** Returns a mutable copy for a dry run. */
  static copyOf({ name, node, pods }: NodeInfo): CachedNodeInfo {
    const copy = new CachedNodeInfo(name);
    copy.setNode(node);
    for (const pod of pods) copy.addPod(pod);
    return copy;
  }
}

/** All nodes with their assigned and assumed pods. Serves as the snapshot of every cycle without copying. */
export class SchedulerCache implements Snapshot {
  readonly #nodeInfos = new Map<string, CachedNodeInfo>();
  readonly #nodeOfPod = new Map<string, string>();
  readonly #assumedPods = new Set<string>();
  /** Pods removed for a dry run, with their nodes. */
  readonly #detachedPods = new Map<string, { readonly pod: PodInfo; readonly node: string; readonly assumed: boolean }>();
  readonly #podAffinityGroups = new PodAffinityGroups();
  readonly #imageStates = new ImageStates();
  readonly #podCounts = new PodCounts((node, label) => this.get(node)?.node.metadata?.labels?.[label]);
  #nodeList: CachedNodeInfo[] | undefined;

  /**
   * The nodes, interleaved by zone, so that a search that stops early has visited every zone. A node that is added or deleted, or whose labels
   * change, causes a new array: callers may cache values by the identity of the array.
   */
  get nodes(): readonly CachedNodeInfo[] {
    return (this.#nodeList ??= interleaveZones([...this.#nodeInfos.values()].filter(({ hasNode }) => hasNode)));
  }
  get(name: string): CachedNodeInfo | undefined {
    const state = this.#nodeInfos.get(name);
    return state?.hasNode ? state : undefined;
  }
  get podAffinityGroups(): Iterable<PodAffinityGroup> {
    return this.#podAffinityGroups.all;
  }
  podCountByNode(selector: PodSelector): ReadonlyMap<string, number> {
    return this.#podCounts.byNode(selector, this.#nodeInfos.values());
  }
  podCountByLabel(selector: PodSelector, label: string): ReadonlyMap<string, number> {
    return this.#podCounts.byLabel(label, selector, this.#nodeInfos.values());
  }
  imageState(image: string): ImageState | undefined {
    return this.#imageStates.get(image);
  }
  isAssumedPod(key: string): boolean {
    return this.#assumedPods.has(key);
  }

  setNode(node: Node): void {
    const state = this.#nodeInfo(node.metadata?.name ?? '');
    const labelsChanged = !state.hasNode || !sameLabels(state.node, node);
    const imagesBefore = state.hasNode ? state.images : noImages;
    state.setNode(node);
    this.#imageStates.replace(state.name, imagesBefore, state.images);
    if (!labelsChanged) return;
    this.#podCounts.resetLabelCounts();
    this.#nodeList = undefined;
  }

  removeNode(name: string): void {
    const state = this.#nodeInfos.get(name);
    if (state === undefined) return;
    if (state.hasNode) this.#imageStates.replace(name, state.images, noImages);
    state.hasNode = false;
    this.#nodeList = undefined;
    this.#podCounts.resetLabelCounts();
    if (state.pods.length === 0) this.#nodeInfos.delete(name);
  }

  /** Adds or updates an assigned pod. Replaces an earlier version of the pod and an assumed pod. */
  setPod(pod: Pod): void {
    const info = newPodInfo(pod);
    this.#detachedPods.delete(info.key);
    this.#removeFromNode(info.key);
    this.#assumedPods.delete(info.key);
    this.#addToNode(info, pod.spec?.nodeName ?? '');
  }

  /** Removes a pod. Returns true if the cache had the pod. */
  removePod(key: string): boolean {
    const known = this.#nodeOfPod.has(key) || this.#detachedPods.has(key);
    this.#detachedPods.delete(key);
    this.#assumedPods.delete(key);
    this.#removeFromNode(key);
    return known;
  }
  nodeOf(key: string): string | undefined {
    return this.#nodeOfPod.get(key);
  }
  /** Returns a pod that has a node. */
  podInfoOf(key: string): PodInfo | undefined {
    return this.#nodeInfos.get(this.#nodeOfPod.get(key) ?? '')?.pod(key);
  }

  /** Counts a pod on a node before the pod's binding is written. */
  assumePod(pod: PodInfo, node: string): void {
    this.#removeFromNode(pod.key);
    this.#assumedPods.add(pod.key);
    this.#addToNode(pod, node);
  }
  /** Reverts `assumePod` after a failed binding. */
  forgetPod(key: string): void {
    if (this.#detachedPods.get(key)?.assumed === true) this.#detachedPods.delete(key);
    if (this.#assumedPods.delete(key)) this.#removeFromNode(key);
  }

  /** Removes a pod during a dry run, until `reattachPod` is called. An event for the pod in the meantime takes precedence. */
  detachPod(pod: PodInfo): void {
    const node = this.#nodeOfPod.get(pod.key);
    if (node === undefined) return;
    this.#detachedPods.set(pod.key, { pod, node, assumed: this.#assumedPods.delete(pod.key) });
    this.#removeFromNode(pod.key);
  }
  reattachPod(key: string): void {
    const detached = this.#detachedPods.get(key);
    if (detached === undefined) return;
    this.#detachedPods.delete(key);
    if (detached.assumed) this.#assumedPods.add(key);
    this.#addToNode(detached.pod, detached.node);
  }

  #addToNode(pod: PodInfo, node: string): void {
    this.#nodeOfPod.set(pod.key, node);
    const state = this.#nodeInfo(node);
    state.addPod(pod);
    this.#podCounts.adjust(pod, node, 1);
    this.#podAffinityGroups.adjust(pod, node, 1);
  }

  #removeFromNode(key: string): void {
    const name = this.#nodeOfPod.get(key);
    if (name === undefined) return;
    this.#nodeOfPod.delete(key);
    const state = this.#nodeInfos.get(name);
    const removed = state?.removePod(key);
    if (removed !== undefined) {
      this.#podCounts.adjust(removed, name, -1);
      this.#podAffinityGroups.adjust(removed, name, -1);
    }
    if (state !== undefined && !state.hasNode && state.pods.length === 0) this.#nodeInfos.delete(name);
  }

  #nodeInfo(name: string): CachedNodeInfo {
    const known = this.#nodeInfos.get(name);
    if (known !== undefined) return known;
    const state = new CachedNodeInfo(name);
    this.#nodeInfos.set(name, state);
    return state;
  }
}

function sameLabels({ metadata: { labels: before = {} } = {} }: Node, { metadata: { labels: after = {} } = {} }: Node): boolean {
  const keys = Object.keys(after);
  return before === after || (keys.length === Object.keys(before).length && keys.every((key) => before[key] === after[key]));
}

const zoneOf = ({ metadata }: Node) =>
  `${metadata?.labels?.['topology.kubernetes.io/region'] ?? ''}/${metadata?.labels?.['topology.kubernetes.io/zone'] ?? ''}`;

function interleaveZones(states: readonly CachedNodeInfo[]): CachedNodeInfo[] {
  const zones = new Map<string, CachedNodeInfo[]>();
  for (const state of states) {
    const zone = zones.get(zoneOf(state.node));
    if (zone) zone.push(state);
    else zones.set(zoneOf(state.node), [state]);
  }
  if (zones.size === 1) return [...states];
  const lists = [...zones.values()];
  const order: CachedNodeInfo[] = [];
  for (let index = 0; order.length < states.length; index++)
    for (const list of lists) {
      const state = list[index];
      if (state) order.push(state);
    }
  return order;
}
