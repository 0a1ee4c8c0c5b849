import { hostPorts } from '@oarlock/api/host-ports';
import type { Node, Pod, Taint } from '@oarlock/api/types/core-v1';
import type { AffinityGroup, NodeInfo, PodInfo, PodSelection, Snapshot } from '@oarlock/spi/scheduling';
import { AffinityGroups } from './affinity-groups.ts';
import { allocatableOf, podInfo, Tally } from './amounts.ts';
import { PodCounts } from './pod-counts.ts';

const noTaints: readonly Taint[] = [];
const placeholder = (name: string): Node => ({ metadata: { name } });

/** A node with its pods. It changes between scheduling cycles, never during one: a cycle runs without interruption. */
export class NodeState implements NodeInfo {
  readonly name: string;
  readonly pods: PodInfo[] = [];
  readonly requested = new Tally();
  readonly nonZeroRequested = new Tally();
  readonly #usedPorts = new Set<string>();
  /** How many pods hold each: for a moment two may, when one of them is only assumed. */
  readonly #ports = new Map<string, number>();
  readonly #at = new Map<string, number>();
  #node: Node;
  #allocatable = new Tally();
  #images: ReadonlyMap<string, number> = new Map();
  // the labels asked for last: they are asked of each node in each cycle, and labels of thousands of nodes are not in the processor's cache
  #oneKey = '';
  #oneLabel: string | undefined;
  #otherKey = '';
  #otherLabel: string | undefined;
  taints: readonly Taint[] = noTaints;
  unschedulable = false;
  /** False while only pods have been heard of, not the node. */
  present = false;

  constructor(name: string) {
    this.name = name;
    this.#node = placeholder(name);
  }

  get node(): Node {
    return this.#node;
  }
  get allocatable(): Tally {
    return this.#allocatable;
  }
  get images(): ReadonlyMap<string, number> {
    return this.#images;
  }
  get usedPorts(): ReadonlySet<string> {
    return this.#usedPorts;
  }
  label(key: string): string | undefined {
    if (key === this.#oneKey) return this.#oneLabel;
    if (key === this.#otherKey) return this.#otherLabel;
    this.#otherKey = this.#oneKey;
    this.#otherLabel = this.#oneLabel;
    this.#oneKey = key;
    this.#oneLabel = this.#node.metadata?.labels?.[key];
    return this.#oneLabel;
  }

  setNode(node: Node): void {
    const before = this.#node;
    this.#node = node;
    this.#oneKey = '';
    this.#oneLabel = undefined;
    this.#otherKey = '';
    this.#otherLabel = undefined;
    this.present = true;
    this.taints = node.spec?.taints ?? noTaints;
    this.unschedulable = node.spec?.unschedulable === true;
    if (before.status?.allocatable !== node.status?.allocatable) this.#allocatable = allocatableOf(node.status?.allocatable);
    if (before.status?.images !== node.status?.images) {
      this.#images = new Map(
        (node.status?.images ?? []).flatMap(({ names, sizeBytes }) =>
          (names ?? []).map((name): [string, number] => [name, sizeBytes ?? 0]),
        ),
      );
    }
  }

  add(pod: PodInfo): void {
    this.#at.set(pod.key, this.pods.length);
    this.pods.push(pod);
    this.requested.add(pod.requests);
    this.nonZeroRequested.add(pod.nonZeroRequests);
    for (const port of hostPorts(pod.pod)) {
      this.#usedPorts.add(port);
      this.#ports.set(port, (this.#ports.get(port) ?? 0) + 1);
    }
  }

  remove(key: string): PodInfo | undefined {
    const index = this.#at.get(key);
    const pod = index === undefined ? undefined : this.pods[index];
    const last = this.pods.pop();
    if (index === undefined || pod === undefined || last === undefined) {
      if (last !== undefined) this.pods.push(last);
      return undefined;
    }
    this.#at.delete(key);
    if (last !== pod) {
      this.pods[index] = last;
      this.#at.set(last.key, index);
    }
    this.requested.add(pod.requests, -1);
    this.nonZeroRequested.add(pod.nonZeroRequests, -1);
    for (const port of hostPorts(pod.pod)) {
      const left = (this.#ports.get(port) ?? 1) - 1;
      this.#ports.set(port, left);
      if (left > 0) continue;
      this.#ports.delete(port);
      this.#usedPorts.delete(port);
    }
    return pod;
  }

  /** A copy to try pods on and off. */
  static copyOf({ name, node, pods }: NodeInfo): NodeState {
    const copy = new NodeState(name);
    copy.setNode(node);
    for (const pod of pods) copy.add(pod);
    return copy;
  }
}

/** All nodes with the pods bound to them and those that are about to be. */
export class NodeCache implements Snapshot {
  readonly #states = new Map<string, NodeState>();
  readonly #nodeOfPod = new Map<string, string>();
  readonly #assumed = new Set<string>();
  /** Taken away for a trial, with the nodes that they are on. */
  readonly #lifted = new Map<string, { readonly pod: PodInfo; readonly node: string; readonly assumed: boolean }>();
  readonly #affinity = new AffinityGroups();
  readonly #counts = new PodCounts((node, label) => this.get(node)?.node.metadata?.labels?.[label]);
  #list: NodeState[] | undefined;

  /** Nodes in an order that mixes zones, so that a search that stops early has seen each of them. Another list as soon as one has other labels. */
  get nodes(): readonly NodeState[] {
    return (this.#list ??= byZoneInTurn([...this.#states.values()].filter(({ present }) => present)));
  }
  get(name: string): NodeState | undefined {
    const state = this.#states.get(name);
    return state?.present ? state : undefined;
  }
  get affinityGroups(): Iterable<AffinityGroup> {
    return this.#affinity.all;
  }
  count(selection: PodSelection): ReadonlyMap<string, number> {
    return this.#counts.of(selection, this.#states.values());
  }
  countBy(selection: PodSelection, label: string): ReadonlyMap<string, number> {
    return this.#counts.by(label, selection, this.#states.values());
  }
  isAssumed(key: string): boolean {
    return this.#assumed.has(key);
  }

  setNode(node: Node): void {
    const state = this.#state(node.metadata?.name ?? '');
    const relabelled = !state.present || !sameLabels(state.node, node);
    state.setNode(node);
    if (!relabelled) return;
    this.#counts.relabelled();
    this.#list = undefined;
  }

  removeNode(name: string): void {
    const state = this.#states.get(name);
    if (state === undefined) return;
    state.present = false;
    this.#list = undefined;
    this.#counts.relabelled();
    if (state.pods.length === 0) this.#states.delete(name);
  }

  /** A pod that is bound. Replaces what was known or assumed of it. */
  setPod(pod: Pod): void {
    const info = podInfo(pod);
    this.#lifted.delete(info.key);
    this.#remove(info.key);
    this.#assumed.delete(info.key);
    this.#place(info, pod.spec?.nodeName ?? '');
  }

  /** Whether it was there. */
  removePod(key: string): boolean {
    const known = this.#nodeOfPod.has(key) || this.#lifted.has(key);
    this.#lifted.delete(key);
    this.#assumed.delete(key);
    this.#remove(key);
    return known;
  }
  nodeOf(key: string): string | undefined {
    return this.#nodeOfPod.get(key);
  }

  /** Counts a pod on a node before its binding has been written. */
  assume(pod: PodInfo, node: string): void {
    this.#remove(pod.key);
    this.#assumed.add(pod.key);
    this.#place(pod, node);
  }
  /** The binding came to nothing. */
  forget(key: string): void {
    if (this.#lifted.get(key)?.assumed === true) this.#lifted.delete(key);
    if (this.#assumed.delete(key)) this.#remove(key);
  }

  /** Counts a pod nowhere until it is put back; what is heard of it meanwhile puts it where it is. */
  lift(pod: PodInfo): void {
    const node = this.#nodeOfPod.get(pod.key);
    if (node === undefined) return;
    this.#lifted.set(pod.key, { pod, node, assumed: this.#assumed.delete(pod.key) });
    this.#remove(pod.key);
  }
  putBack(key: string): void {
    const lifted = this.#lifted.get(key);
    if (lifted === undefined) return;
    this.#lifted.delete(key);
    if (lifted.assumed) this.#assumed.add(key);
    this.#place(lifted.pod, lifted.node);
  }

  #place(pod: PodInfo, node: string): void {
    this.#nodeOfPod.set(pod.key, node);
    const state = this.#state(node);
    state.add(pod);
    this.#counts.placed(pod, node, 1);
    this.#affinity.placed(pod, node, 1);
  }

  #remove(key: string): void {
    const name = this.#nodeOfPod.get(key);
    if (name === undefined) return;
    this.#nodeOfPod.delete(key);
    const state = this.#states.get(name);
    const removed = state?.remove(key);
    if (removed !== undefined) {
      this.#counts.placed(removed, name, -1);
      this.#affinity.placed(removed, name, -1);
    }
    if (state !== undefined && !state.present && state.pods.length === 0) this.#states.delete(name);
  }

  #state(name: string): NodeState {
    const known = this.#states.get(name);
    if (known !== undefined) return known;
    const state = new NodeState(name);
    this.#states.set(name, state);
    return state;
  }
}

function sameLabels({ metadata: { labels: before = {} } = {} }: Node, { metadata: { labels: after = {} } = {} }: Node): boolean {
  const keys = Object.keys(after);
  return before === after || (keys.length === Object.keys(before).length && keys.every((key) => before[key] === after[key]));
}

const zoneOf = ({ metadata }: Node) =>
  `${metadata?.labels?.['topology.kubernetes.io/region'] ?? ''}/${metadata?.labels?.['topology.kubernetes.io/zone'] ?? ''}`;

function byZoneInTurn(states: readonly NodeState[]): NodeState[] {
  const zones = new Map<string, NodeState[]>();
  for (const state of states) {
    const zone = zones.get(zoneOf(state.node));
    if (zone) zone.push(state);
    else zones.set(zoneOf(state.node), [state]);
  }
  if (zones.size === 1) return [...states];
  const lists = [...zones.values()];
  const order: NodeState[] = [];
  for (let index = 0; order.length < states.length; index++)
    for (const list of lists) {
      const state = list[index];
      if (state) order.push(state);
    }
  return order;
}
