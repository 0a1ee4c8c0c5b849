import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Node, Pod, Taint } from '@oarlock/api/types/core-v1';
import { slot } from '@oarlock/kernel/slot';
import type { SpanContext } from '@oarlock/kernel/tracing';

/** Resources of a node or requests of a pod: CPU in millicores, memory and storage in bytes. */
export interface Resources {
  readonly milliCpu: number;
  readonly memory: number;
  readonly ephemeralStorage: number;
  readonly pods: number;
  /** Extended resources and huge pages, by name. */
  readonly scalar: ReadonlyMap<string, number>;
}

/** A pod with values that the scheduler computes once. */
export interface PodInfo {
  readonly pod: Pod;
  /** `namespace/name`. */
  readonly key: string;
  /** The resources that the kubelet reserves for the pod: containers, init containers and overhead (KEP-753). */
  readonly requests: Resources;
  /** `requests`, with 100m CPU and 200 MiB of memory for each container that requests none. Used for scoring. */
  readonly nonZeroRequests: Resources;
}

/** A node with its assigned and assumed pods at the start of a scheduling cycle. */
export interface NodeInfo {
  readonly node: Node;
  readonly name: string;
  /** `spec.taints` of the node. */
  readonly taints: readonly Taint[];
  /** `spec.unschedulable` of the node. */
  readonly unschedulable: boolean;
  /** Returns the value of a label of `node`. Faster than reading `node` when the same few labels of all nodes are read. */
  label(key: string): string | undefined;
  readonly pods: readonly PodInfo[];
  readonly allocatable: Resources;
  readonly requested: Resources;
  readonly nonZeroRequested: Resources;
  /** Host ports in use, as `protocol/ip/port`. */
  readonly usedPorts: ReadonlySet<string>;
  /** Sizes in bytes of the images on the node, by image name. */
  readonly images: ReadonlyMap<string, number>;
}

/** Selects pods whose number per node is counted. */
export interface PodSelector {
  /** Identifies the selector in caches: selectors with equal keys must select the same pods. */
  readonly key: string;
  /** The namespaces of the pods; absent: all namespaces. */
  readonly namespaces?: ReadonlySet<string>;
  /** Returns true if the selector selects the pod. The result must depend only on the pod. */
  matches(pod: Pod): boolean;
}

/** Assigned pods with equal pod affinity and anti-affinity terms. */
export interface PodAffinityGroup {
  /** One pod of the group. */
  readonly representative: Pod;
  /** The number of pods of the group on each node. Nodes without such pods are absent. */
  readonly countByNode: ReadonlyMap<string, number>;
}

/** A consistent view of the cluster at the start of a scheduling cycle. */
export interface Snapshot {
  readonly nodes: readonly NodeInfo[];
  /** The assigned pods with pod affinity or anti-affinity, grouped by equal terms. */
  readonly podAffinityGroups: Iterable<PodAffinityGroup>;
  get(name: string): NodeInfo | undefined;
  /**
   * Returns the number of selected pods on each node; nodes without such pods are absent. Counts are maintained between cycles, so repeated calls are
   * cheap.
   */
  podCountByNode(selector: PodSelector): ReadonlyMap<string, number>;
  /** Returns the number of selected pods for each value of a node label; nodes without the label do not count. */
  podCountByLabel(selector: PodSelector, label: string): ReadonlyMap<string, number>;
  /** Returns the state of an image, by a name that nodes report; undefined if no node has the image. */
  imageState(image: string): ImageState | undefined;
}

/** An image that nodes of the cluster have. */
export interface ImageState {
  readonly sizeBytes: number;
  /** The number of nodes that have the image. */
  readonly nodeCount: number;
}

/** Values that plugins pass from one extension point to the next within a cycle, each under its own key. */
export interface CycleState {
  readonly snapshot: Snapshot;
  read<T>(key: symbol): T | undefined;
  write<T>(key: symbol, value: T): void;
  /**
   * Returns a copy of a node, to filter the node with other pods on it. For postFilter. Returns undefined if the node does not exist. Absent in
   * cycles without postFilter.
   */
  dryRun?(pod: PodInfo, node: string): NodeDryRun | undefined;
  /** Returns the node to which an earlier preemption nominated the pod. */
  nominatedNodeName?(pod: PodInfo): string | undefined;
  /** Returns the preemption candidates that the extenders accept. For postFilter. Absent if no extender takes part in preemption. */
  callPreemptionExtenders?(pod: PodInfo, candidates: readonly PreemptionCandidate[]): Promise<readonly PreemptionCandidate[]>;
}

/** A copy of a node, to which pods can be added and removed. At most one may be in use; the caller must call `revert` at the end. */
export interface NodeDryRun {
  readonly node: NodeInfo;
  addPod(pod: PodInfo): void;
  removePod(pod: PodInfo): void;
  /** Runs the filter plugins on the copy. Returns the first rejection, or undefined if the pod fits. */
  runFilters(): Status | undefined;
  /** Undoes all calls of `addPod` and `removePod`, also in the state of plugins. */
  revert(): void;
}

/**
 * The result of an extension point:
 *
 * - `success`: the plugin accepts the pod;
 * - `skip`: the plugin does not apply to the pod (its effect is documented at the extension points that allow it);
 * - `unschedulable`: rejected, preemption may help;
 * - `unresolvable`: rejected, preemption does not help (UnschedulableAndUnresolvable upstream);
 * - `pending`: rejected until an external event (preEnqueue, reserve);
 * - `wait`: the pod waits at permit, at most `timeoutMs` milliseconds;
 * - `error`: a failure that is not caused by the pod or the node; the pod is retried after a backoff.
 */
export type Status =
  | { readonly code: 'success' }
  | { readonly code: 'skip' }
  | { readonly code: 'unschedulable' | 'unresolvable' | 'pending' | 'error'; readonly reasons: readonly string[] }
  | { readonly code: 'wait'; readonly timeoutMs: number };
export const success: Status = { code: 'success' };
export const skip: Status = { code: 'skip' };
export const unschedulable = (...reasons: string[]): Status => ({ code: 'unschedulable', reasons });
export const unschedulableAndUnresolvable = (...reasons: string[]): Status => ({ code: 'unresolvable', reasons });
export const pending = (...reasons: string[]): Status => ({ code: 'pending', reasons });
export const errorStatus = (...reasons: string[]): Status => ({ code: 'error', reasons });

export interface QueuedPod extends PodInfo {
  /** When the pod was first added to the queue, in milliseconds since the epoch. */
  readonly queuedAt: number;
  readonly attempts: number;
}

/**
 * A cluster event that may make a pod schedulable that the plugin rejected. `queueingHint` decides about a particular event; absent: `queue`.
 *
 * The kind is `AssignedPod` (a pod with a node), `Pod` (the rejected pod itself, whose updates are always considered), or a kind of
 * the API. A kind outside the built-in API also needs its `resource`.
 */
export interface ClusterEventWithHint {
  readonly kind: 'Pod' | 'AssignedPod' | 'Node' | 'PersistentVolumeClaim' | 'PersistentVolume' | 'StorageClass' | 'CSINode' | (string & {});
  readonly resource?: Resource;
  readonly actions: readonly ('added' | 'updated' | 'deleted')[];
  queueingHint?(pod: Pod, oldObject: unknown, newObject: unknown): 'queue' | 'skip';
}

/** The rejection of each node, by node name. */
export type NodeToStatus = ReadonlyMap<string, { readonly plugin: string; readonly status: Status }>;

/** A pod that waits at permit. */
export interface WaitingPod {
  readonly pod: PodInfo;
  readonly node: string;
  allow(plugin: string): void;
  reject(plugin: string, reason: string): void;
  /** Rejects the pod for a pod of higher priority. The pod is retried after its backoff, without a cluster event (since Kubernetes 1.36). */
  preempt(reason: string): void;
}

/** The scheduler as plugins see it (framework.Handle upstream). */
export interface Handle {
  /** Requeues a pod, whatever plugin rejected it. The key is `namespace/name`. */
  activate(key: string): void;
  waitingPod(key: string): WaitingPod | undefined;
  /** Returns a pod in the preBind phase. `cancel` ends its binding for a pod of higher priority; the pod is retried as after `preempt`. */
  podInPreBind(key: string): { cancel(reason: string): void } | undefined;
  /** Requeues all pods that a plugin rejected. For plugins whose behavior changes at runtime. */
  requeueRejectedBy(plugin: string): void;
}

/** A group of pods that are scheduled together or not at all. */
export interface PodGroupInfo {
  readonly key: string;
  /** The number of members that must have a node, including members that already have one. */
  readonly minCount: number;
  has(pod: Pod): boolean;
  /** Returns sets of node names, best first: all members must be placed within one set. Absent: any node. */
  topologyDomains?(snapshot: Snapshot): readonly ReadonlySet<string>[];
  /** Reports the number of members that have a node, after each scheduling attempt. Must not block. */
  reportAttempt(scheduledCount: number, message: string): void;
  /** Absent: the group does not preempt pods. */
  readonly preemption?: PodGroupPreemption;
}

/** Preemption by and of pod groups (KEP-5710). */
export interface PodGroupPreemption {
  /** The object of the group, for the events of preempted pods. */
  readonly object: KubeObject;
  readonly priority: number;
  /** Returns the group of a pod, whose priority replaces the pod's own. `preemptTogether`: the group is preempted as a whole or not at all. */
  podGroupOf(pod: Pod): { readonly key: string; readonly priority: number; readonly preemptTogether: boolean } | undefined;
}

/** Schedules the members of a group in the whole cluster without some of its pods. Removed pods are restored when the dry run ends. */
export interface PodGroupDryRun {
  readonly snapshot: Snapshot;
  readonly members: readonly PodInfo[];
  removePod(pod: PodInfo): void;
  restorePod(pod: PodInfo): void;
  /** Returns the node to which an earlier preemption nominated a member. */
  nominatedNodeName(pod: PodInfo): string | undefined;
  /** Resolves with the node of each member that fits, by pod key; undefined if fewer than `minCount` fit. */
  scheduleMembers(): Promise<ReadonlyMap<string, string> | undefined>;
}

/** `nominatedNodeNames` has the node nominated for each member, by pod key. */
export type PodGroupPostFilterResult = Status & { readonly nominatedNodeNames?: ReadonlyMap<string, string> };

/** A node and the pods to preempt on it. */
export interface PreemptionCandidate {
  readonly node: string;
  /** In the order of importance, the most important victim first. */
  readonly victims: readonly PodInfo[];
  /** The number of victims whose eviction violates a PodDisruptionBudget. */
  readonly pdbViolations: number;
}

/** The trace and the cancellation of a binding cycle. */
export interface BindContext {
  readonly spanContext: SpanContext | undefined;
  readonly signal: AbortSignal;
}

/** `nominatedNodeName`: absent keeps an earlier nomination, '' clears it. */
export type PostFilterStatus = Status & { readonly nominatedNodeName?: string };

/**
 * The extension points of the Kubernetes scheduling framework (KEP-624). All are optional; plugins run in the order of the chain.
 * preEnqueue to score run for one pod at a time and must not wait for I/O; reserve to postBind may run concurrently with later cycles.
 */
export interface SchedulingPlugin {
  readonly name: string;
  /** The weight of `score`; 1 if absent. */
  readonly weight?: number;
  /** The events that may help pods which this plugin rejected; absent: every event. */
  readonly eventsToRegister?: readonly ClusterEventWithHint[];
  /** Resolves when the caches of the plugin are synced. No pod is scheduled before. */
  whenSynced?(signal: AbortSignal): Promise<void>;
  /** Returns this plugin with the arguments of a profile (`pluginConfig`). @throws Error if the arguments are invalid */
  withArgs?(args: unknown): SchedulingPlugin;
  /** Passes the scheduler's handle to the plugin. Called once, before the first pod is scheduled. */
  setHandle?(handle: Handle): void;
  /** Gates pods: a rejected pod does not enter the active queue until one of `eventsToRegister` occurs. */
  preEnqueue?(pod: Pod): Status;
  /** Returns the group that the pod must be scheduled with. */
  podGroup?(pod: Pod): PodGroupInfo | undefined;
  /** Compares two pods of the active queue: negative if `a` is first. Exactly one plugin of a profile must implement `queueSort`. */
  queueSort?(a: QueuedPod, b: QueuedPod): number;
  /** Returns `nodes` to restrict the nodes to evaluate. `skip` disables this plugin's filter for the pod. */
  preFilter?(state: CycleState, pod: PodInfo): Status | { readonly code: 'success'; readonly nodes: ReadonlySet<string> };
  /** Updates the preFilter state when a dry run adds a pod to a copy of a node; `removePod` does the same when a pod is removed. */
  addPod?(state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo): void;
  removePod?(state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo): void;
  filter?(state: CycleState, pod: PodInfo, node: NodeInfo): Status;
  /**
   * Preempts pods and nominates a node if possible, when no node fits the pod. The reasons of a rejection are appended to the reasons of the filters.
   * An empty `nominatedNodeName` clears an earlier nomination. Must write in the background, because no other pod is scheduled in the meantime.
   */
  postFilter?(state: CycleState, pod: PodInfo, nodeToStatus: NodeToStatus): Promise<PostFilterStatus> | PostFilterStatus;
  /** Preempts pods on any nodes if possible, when too few members of a pod group fit. */
  podGroupPostFilter?(podGroup: PodGroupInfo, dryRun: PodGroupDryRun): Promise<PodGroupPostFilterResult>;
  /** `skip` disables this plugin's score for the pod. */
  preScore?(state: CycleState, pod: PodInfo, nodes: readonly NodeInfo[]): Status;
  /** Returns a score from 0 (worst) to 100 (best), or of any range if `normalizeScore` is present. */
  score?(state: CycleState, pod: PodInfo, node: NodeInfo): number;
  /** Scales the scores to 0..100 in place. `scores` is in the order of `nodes`. */
  normalizeScore?(state: CycleState, pod: PodInfo, nodes: readonly NodeInfo[], scores: Float64Array): void;
  /** Reserves resources for the pod on its node. */
  reserve?(state: CycleState, pod: PodInfo, node: string): Status | Promise<Status>;
  /** Reverts reserve. Called for every plugin, in reverse order, if a later step fails; also without a preceding reserve. Must not fail. */
  unreserve?(state: CycleState, pod: PodInfo, node: string): void;
  /** `wait` delays the binding until the plugin allows the pod. */
  permit?(state: CycleState, pod: PodInfo, node: string): Status;
  /**
   * Returns `skip` if `preBind` has nothing to do for the pod; absent: it always has. If a plugin has, the scheduler writes
   * `status.nominatedNodeName` before preBind (KEP-5278).
   */
  preBindPreFlight?(state: CycleState, pod: PodInfo, node: string): Status;
  preBind?(state: CycleState, pod: PodInfo, node: string, context: BindContext): Promise<Status>;
  /** `skip` passes the pod to the next bind plugin. */
  bind?(state: CycleState, pod: PodInfo, node: string, context: BindContext): Promise<Status>;
  postBind?(state: CycleState, pod: PodInfo, node: string): void;
}

export const Scheduling = slot.chain<SchedulingPlugin>('scheduling/v1');
