import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Node, Pod, Taint } from '@oarlock/api/types/core-v1';
import { slot } from '@oarlock/kernel/slot';
import type { Cause } from '@oarlock/kernel/tracing';

/** Amounts of what a node has or a pod asks for. CPU in thousandths, memory and storage in bytes. */
export interface Amounts {
  readonly milliCpu: number;
  readonly memory: number;
  readonly ephemeralStorage: number;
  readonly pods: number;
  /** Extended resources and huge pages by name. */
  readonly scalar: ReadonlyMap<string, number>;
}

/** A pod with what the scheduler works out of it once. */
export interface PodInfo {
  readonly pod: Pod;
  readonly key: string;
  /** Sum over containers, init containers and overhead as the kubelet will reserve it. */
  readonly requests: Amounts;
  /** `requests` with 100m CPU and 200 MB where a container states none: what spreading by least allocated goes by. */
  readonly nonZeroRequests: Amounts;
}

/** One node at the start of a scheduling cycle. */
export interface NodeInfo {
  readonly node: Node;
  readonly name: string;
  /** `spec.taints` of the node. */
  readonly taints: readonly Taint[];
  /** `spec.unschedulable` of the node. */
  readonly unschedulable: boolean;
  /** The value of a label of the node; the same as from `node`, and quicker when all nodes are asked for a few labels. */
  label(key: string): string | undefined;
  readonly pods: readonly PodInfo[];
  readonly allocatable: Amounts;
  readonly requested: Amounts;
  readonly nonZeroRequested: Amounts;
  /** `protocol/ip/port` of host ports in use. */
  readonly usedPorts: ReadonlySet<string>;
  /** Bytes by image name, over images this node has. */
  readonly images: ReadonlyMap<string, number>;
}

/** A choice of pods that are counted by node. */
export interface PodSelection {
  /** Says all that the choice depends on: equal keys mean equal choices. */
  readonly key: string;
  /** Absent: all namespaces. */
  readonly namespaces?: ReadonlySet<string>;
  /** Goes by the pod alone. */
  selects(pod: Pod): boolean;
}

/** Pods with nodes whose pod affinity and anti-affinity mean the same. */
export interface AffinityGroup {
  /** One of them. */
  readonly pod: Pod;
  /** How many of them each node has; nodes without any are left out. */
  readonly byNode: ReadonlyMap<string, number>;
}

/** One consistent view of the cluster, taken at the start of a cycle. */
export interface Snapshot {
  readonly nodes: readonly NodeInfo[];
  /** The pods that ask for or against the company of others, those together that ask for the same. */
  readonly affinityGroups: Iterable<AffinityGroup>;
  get(name: string): NodeInfo | undefined;
  /** How many pods of a choice each node has; nodes without any are left out. Kept up to date between cycles: asking again is cheap. */
  count(selection: PodSelection): ReadonlyMap<string, number>;
  /** The same by the value of a label of the nodes; nodes without it are left out. */
  countBy(selection: PodSelection, label: string): ReadonlyMap<string, number>;
}

/** What plugins keep from one extension point to the next of the same cycle, by a key of their own. */
export interface CycleState {
  readonly snapshot: Snapshot;
  read<T>(key: symbol): T | undefined;
  write<T>(key: symbol, value: T): void;
  /** For postFilter, in cycles that get there: whether the pod would fit on a node with other pods. Undefined when there is no such node. */
  trial?(pod: PodInfo, node: string): Trial | undefined;
  /** The node on which room was made for a pod before. */
  nominatedNode?(pod: PodInfo): string | undefined;
  /** For postFilter: what extenders leave of the places where room could be made. Absent when no extender has a say in it. */
  extendPreemption?(pod: PodInfo, places: readonly Eviction[]): Promise<readonly Eviction[]>;
}

/** A copy of a node to put pods on and take them off. One at a time; it must be ended. */
export interface Trial {
  readonly node: NodeInfo;
  add(pod: PodInfo): void;
  remove(pod: PodInfo): void;
  /** What the chain's filters say against the pod there now: undefined when it fits. */
  refusal(): Outcome | undefined;
  /** Undoes all adding and removing. */
  end(): void;
}

/**
 * `unschedulable`: no, but preemption may help. `unresolvable`: no, and preemption does not help. `skip`: this plugin has
 * nothing to say on this pod. `wait`: hold at permit, at most `timeoutMs`. `pending`: wait for something outside (preEnqueue, reserve).
 * `error`: something failed that has nothing to do with the pod or the node: tried again after a back-off.
 */
export type Outcome =
  | { readonly code: 'success' }
  | { readonly code: 'skip' }
  | { readonly code: 'unschedulable' | 'unresolvable' | 'pending' | 'error'; readonly reasons: readonly string[] }
  | { readonly code: 'wait'; readonly timeoutMs: number };
export const success: Outcome = { code: 'success' };
export const skip: Outcome = { code: 'skip' };
export const unschedulable = (...reasons: string[]): Outcome => ({ code: 'unschedulable', reasons });
export const unresolvable = (...reasons: string[]): Outcome => ({ code: 'unresolvable', reasons });
export const pending = (...reasons: string[]): Outcome => ({ code: 'pending', reasons });
export const failed = (...reasons: string[]): Outcome => ({ code: 'error', reasons });

export interface QueuedPod extends PodInfo {
  /** Milliseconds since the epoch when the pod first came to the queue. */
  readonly queuedAt: number;
  readonly attempts: number;
}

/**
 * What may make a pod that this plugin refused schedulable. `hint` says whether this very change is worth a try. `AssignedPod`: a pod with a
 * node. `Pod`: the waiting pod itself, whose changes always count. Else a kind of the API; one that the server does not have by default
 * is named by its `resource` as well.
 */
export interface RequeueOn {
  readonly kind: 'Pod' | 'AssignedPod' | 'Node' | 'PersistentVolumeClaim' | 'PersistentVolume' | 'StorageClass' | 'CSINode' | (string & {});
  readonly resource?: Resource;
  readonly on: readonly ('added' | 'updated' | 'deleted')[];
  hint?(pod: Pod, old: unknown, now: unknown): 'queue' | 'skip';
}

/** Nodes by name to why each was refused. */
export type Refusals = ReadonlyMap<string, { readonly plugin: string; readonly outcome: Outcome }>;

/** A pod that permit holds. */
export interface HeldPod {
  readonly pod: PodInfo;
  readonly node: string;
  allow(plugin: string): void;
  reject(plugin: string, reason: string): void;
}

/** What a plugin may ask of the scheduler that runs it. */
export interface SchedulerHandle {
  /** Tries a pod again soon, whatever refused it. */
  activate(key: string): void;
  held(key: string): HeldPod | undefined;
  /** Tries those pods again that a plugin refused: it has become another one. */
  reconsider(plugin: string): void;
}

/** Pods that get their nodes together, or none of them does. */
export interface PodTeam {
  readonly key: string;
  /** So many of them must have a node, those that have one already included. */
  readonly atLeast: number;
  has(pod: Pod): boolean;
  /** Sets of nodes, one of which all members have to stay within, the best one first; absent: they may be anywhere. */
  domains?(snapshot: Snapshot): readonly ReadonlySet<string>[];
  /** Told after each attempt, with how many have a node now. Must not wait. */
  settled(placed: number, message: string): void;
  /** For preemption in favour of the team; absent: no room is made for it. */
  readonly preemption?: TeamPreemption;
}

/** How teams take each other's room (KEP-5710). */
export interface TeamPreemption {
  /** What the team is, for events about those it takes the room of. */
  readonly object: KubeObject;
  readonly priority: number;
  /** The team that a pod of any kind belongs to, which says how much it matters; `together`: it is lost as a whole or not at all. */
  teamOf(pod: Pod): { readonly key: string; readonly priority: number; readonly together: boolean } | undefined;
}

/** The whole cluster, to try a team in without some of the pods that are there. What is taken away comes back when the trial is over. */
export interface TeamTrial {
  readonly snapshot: Snapshot;
  readonly members: readonly PodInfo[];
  remove(pod: PodInfo): void;
  restore(pod: PodInfo): void;
  /** The node on which room was made for a member before. */
  nominatedNode(pod: PodInfo): string | undefined;
  /** The nodes that members would get now, by key of the pod; undefined when they are too few. */
  attempt(): Promise<ReadonlyMap<string, string> | undefined>;
}

/** What became of making room for a team: `nominated`: which node is kept for which member. */
export type TeamOutcome = Outcome & { readonly nominated?: ReadonlyMap<string, string> };

/** Where room can be made, and by whose loss. */
export interface Eviction {
  readonly node: string;
  /** The most important one first. */
  readonly victims: readonly PodInfo[];
  /** How many of them a disruption budget would protect. */
  readonly violations: number;
}

/** Side effects a plugin may need at bind time. The client comes through the plugin's `needs`. */
export interface BindContext {
  readonly cause: Cause | undefined;
  readonly signal: AbortSignal;
}

/**
 * The extension points of the Kubernetes scheduling framework (KEP-624). All are optional; each runs in the order of the chain.
 * preEnqueue to score run for one pod at a time and must not wait on I/O; reserve to postBind may overlap with later cycles.
 */
export interface SchedulingPlugin {
  readonly name: string;
  /** Weight of `score`; default 1. */
  readonly weight?: number;
  readonly requeueOn?: readonly RequeueOn[];
  /** Resolves when the caches that the plugin looks things up in are filled: no pod is tried before. */
  ready?(signal: AbortSignal): Promise<void>;
  /** The same plugin with arguments of a profile (`pluginConfig`). @throws when they are not right, saying what is wrong */
  withArgs?(args: unknown): SchedulingPlugin;
  /** Called once, before the first pod. */
  attach?(scheduler: SchedulerHandle): void;
  /** Refused pods wait outside the queue for what `requeueOn` names. */
  preEnqueue?(pod: Pod): Outcome;
  /** The team that a pod must be placed with. */
  team?(pod: Pod): PodTeam | undefined;
  /** Exactly one plugin of the chain has it. Negative when `a` goes first. */
  queueSort?(a: QueuedPod, b: QueuedPod): number;
  /** May narrow the nodes to try: return `nodes`. `skip` leaves out this plugin's filter for the pod. */
  preFilter?(state: CycleState, pod: PodInfo): Outcome | { readonly code: 'success'; readonly nodes: ReadonlySet<string> };
  /** Keep preFilter's state right while preemption tries pods on and off a node. */
  addPod?(state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo): void;
  removePod?(state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo): void;
  filter?(state: CycleState, pod: PodInfo, node: NodeInfo): Outcome;
  /**
   * When no node fits: may make room and nominate a node. The reasons of a refusal are told with those of the filters; an empty
   * `nominated` takes back what was nominated before. Writes are for the background: the queue stands still meanwhile.
   */
  postFilter?(
    state: CycleState,
    pod: PodInfo,
    refusals: Refusals,
  ): Promise<Outcome & { readonly nominated?: string }> | (Outcome & { readonly nominated?: string });
  /** The same for a team of which too few members fit, anywhere in the cluster. */
  postFilterTeam?(team: PodTeam, trial: TeamTrial): Promise<TeamOutcome>;
  preScore?(state: CycleState, pod: PodInfo, nodes: readonly NodeInfo[]): Outcome;
  /** Any range when `normalize` is given, else 0 (worst) to 100 (best). */
  score?(state: CycleState, pod: PodInfo, node: NodeInfo): number;
  /** Brings the scores, one per node of `nodes` in order, to 0..100 in place. */
  normalize?(state: CycleState, pod: PodInfo, nodes: readonly NodeInfo[], scores: Float64Array): void;
  reserve?(state: CycleState, pod: PodInfo, node: string): Outcome | Promise<Outcome>;
  /** Undoes reserve; called for every plugin, in reverse, when anything after it fails. Must not fail. */
  unreserve?(state: CycleState, pod: PodInfo, node: string): void;
  permit?(state: CycleState, pod: PodInfo, node: string): Outcome;
  /** Says at once whether `preBind` will have something to do: `skip` when not. Absent: it will. Then the pod's `nominatedNodeName` tells others where it goes (KEP-5278). */
  preBindPreFlight?(state: CycleState, pod: PodInfo, node: string): Outcome;
  preBind?(state: CycleState, pod: PodInfo, node: string, context: BindContext): Promise<Outcome>;
  /** `skip` passes on to the next binder. */
  bind?(state: CycleState, pod: PodInfo, node: string, context: BindContext): Promise<Outcome>;
  postBind?(state: CycleState, pod: PodInfo, node: string): void;
}

export const Scheduling = slot.chain<SchedulingPlugin>('scheduling/v1');
