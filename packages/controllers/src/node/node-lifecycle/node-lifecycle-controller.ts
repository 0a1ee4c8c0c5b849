import { leases, nodes, pods as podResource } from '@oarlock/api/resources';
import type { KubeObject } from '@oarlock/api/object';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { Node, NodeCondition, Pod, Taint } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { conditionOf } from '../../pods/pod-state.ts';
import { EvictionMetrics } from './eviction-metrics.ts';
import { ZoneEvictionLimiter, zoneKeyOf, type EvictionRates } from './zone-eviction-limiter.ts';
import { podsByNodeIndex, podNodeKeys } from '../../indexes/pods-by-node.ts';

const leaseNamespace = 'kube-node-lease';
const notReadyTaint = 'node.kubernetes.io/not-ready';
const unreachableTaint = 'node.kubernetes.io/unreachable';
/** Node conditions that prevent scheduling on a node, each with the taint for the condition. */
const conditionTaints: readonly (readonly [condition: string, taint: string])[] = [
  ['MemoryPressure', 'node.kubernetes.io/memory-pressure'],
  ['DiskPressure', 'node.kubernetes.io/disk-pressure'],
  ['PIDPressure', 'node.kubernetes.io/pid-pressure'],
  ['NetworkUnavailable', 'node.kubernetes.io/network-unavailable'],
];
const watchedConditions = ['Ready', 'MemoryPressure', 'DiskPressure', 'PIDPressure'];
const managedNoScheduleTaints: ReadonlySet<string> = new Set([
  notReadyTaint,
  unreachableTaint,
  'node.kubernetes.io/unschedulable',
  ...conditionTaints.map(([, taint]) => taint),
]);
/** Returns true if the controller adds and removes this taint. Taints of these keys with other effects belong to users. */
const isManaged = ({ key, effect }: Taint): boolean =>
  effect === 'NoSchedule'
    ? managedNoScheduleTaints.has(key)
    : effect === 'NoExecute' && (key === notReadyTaint || key === unreachableTaint);
const isSameTaint = (a: Taint, b: Taint): boolean => a.key === b.key && a.effect === b.effect;

interface NodeLifecycleControllerOptions {
  readonly nodes: Informer<Node>;
  readonly pods: Informer<Pod>;
  readonly leases: Informer;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  readonly graceMs: number;
  /** The grace period of a node without a Ready condition, which has not posted a status yet. */
  readonly startupGraceMs: number;
  readonly rates: EvictionRates;
  readonly metrics: EvictionMetrics;
}

/**
 * Detects nodes without heartbeats by their Leases, and sets the conditions and taints of these nodes. The grace period of a node starts when
 * this process first observes the node, so that a restart of the control plane does not mark nodes as unreachable.
 */
export class NodeLifecycleController implements Controller {
  readonly name = 'node-lifecycle';
  readonly watches;
  readonly #options: NodeLifecycleControllerOptions;
  /** Time of the last heartbeat of each node, in milliseconds of the monotonic clock. */
  readonly #lastHeartbeats = new Map<string, number>();
  readonly #zones: ZoneEvictionLimiter;

  constructor(options: NodeLifecycleControllerOptions) {
    this.#options = options;
    this.#zones = new ZoneEvictionLimiter(options.rates);
    options.pods.addIndexer(podsByNodeIndex, podNodeKeys);
    const recordHeartbeat = ({ metadata }: { readonly metadata?: { readonly name?: string } }) => {
      this.#lastHeartbeats.set(metadata?.name ?? '', options.clock.monotonic());
    };
    options.leases.addEventHandler({
      onAdd: (lease) => {
        if (isNodeLease(lease)) recordHeartbeat(lease);
      },
      onUpdate: (lease, old) => {
        if (lease !== old && isNodeLease(lease)) recordHeartbeat(lease);
      },
    });
    options.nodes.addEventHandler({
      // a status update of the kubelet is a heartbeat as well: after an outage it may arrive before a lease renewal
      onUpdate: (node, old) => {
        if (heartbeat(node) !== heartbeat(old)) recordHeartbeat(node);
      },
      onAdd: (node) => this.#recordNodeEvent(node, { reason: 'RegisteredNode', action: 'Registered', preposition: 'in' }),
      onDelete: (node) => {
        this.#lastHeartbeats.delete(node.metadata?.name ?? '');
        this.#recordNodeEvent(node, { reason: 'RemovingNode', action: 'Removing', preposition: 'from' });
      },
    });
    this.watches = [
      watch(options.pods, () => []), // pods are only read, but must have synced
      watch(options.nodes, (node) => this.#affectedNodes(node)),
      // a lease enqueues its node only after an outage; otherwise the requeue checks it
      watch(options.leases, (lease) => {
        const name = lease.metadata?.name ?? '';
        return isNodeLease(lease) && readyStatus(options.nodes.get(name)) === 'Unknown' ? [name] : [];
      }),
    ];
  }

  #recordNodeEvent(
    node: Node,
    { reason, action, preposition }: { readonly reason: string; readonly action: string; readonly preposition: string },
  ): void {
    const name = node.metadata?.name ?? '';
    this.#options.recorder.event(node, 'Normal', reason, `Node ${name} event: ${action} Node ${name} ${preposition} Controller`);
  }

  /** Yields the names of the nodes whose taints may change: this node, and other nodes in the zone if the zone's state changed. */
  *#affectedNodes(node: Node): Iterable<string> {
    const name = node.metadata?.name ?? '';
    yield name;
    const wasLost = this.#zones.allZonesFullyDisrupted;
    const others = this.#options.nodes.get(name) === undefined ? this.#zones.removeNode(name) : this.#zones.setNode(node);
    // after a full disruption all nodes get a new grace period
    if (wasLost && !this.#zones.allZonesFullyDisrupted)
      for (const known of this.#lastHeartbeats.keys()) this.#lastHeartbeats.set(known, this.#options.clock.monotonic());
    yield* others;
  }

  async reconcile(name: string, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const { nodes: all, clock, graceMs, startupGraceMs } = this.#options;
    let node = all.get(name);
    if (node === undefined) return undefined;
    const lastHeartbeat = this.#lastHeartbeats.get(name) ?? clock.monotonic();
    this.#lastHeartbeats.set(name, lastHeartbeat);
    const remainingMs = lastHeartbeat + (readyStatus(node) === undefined ? startupGraceMs : graceMs) - clock.monotonic();
    if (remainingMs <= 0 && readyStatus(node) !== 'Unknown') node = await this.#markUnknown(node, client);
    if (node === undefined) return undefined;
    const waitMs = await this.#syncTaints(node, client);
    if (readyStatus(node) !== 'True') await this.#markPodsNotReady(node, client);
    const waits = [remainingMs, waitMs ?? 0].filter((ms) => ms > 0);
    return waits.length > 0 ? { requeueAfterMs: Math.min(...waits) } : undefined;
  }

  async #markUnknown(node: Node, client: Client): Promise<Node | undefined> {
    const now = formatTime(this.#options.clock.now());
    const existing = node.status?.conditions ?? [];
    const unknown = {
      status: 'Unknown',
      reason: 'NodeStatusUnknown',
      message: 'Kubelet stopped posting node status.',
      lastTransitionTime: now,
    };
    const conditions = [
      ...existing.map((condition) =>
        watchedConditions.includes(condition.type) && condition.status !== 'Unknown' ? { ...condition, ...unknown } : condition,
      ),
      ...watchedConditions
        .filter((type) => !existing.some((condition) => condition.type === type))
        .map(
          (type): NodeCondition => ({
            type,
            status: 'Unknown',
            reason: 'NodeStatusNeverUpdated',
            message: 'Kubelet never posted node status.',
            lastHeartbeatTime: node.metadata?.creationTimestamp ?? now,
            lastTransitionTime: now,
          }),
        ),
    ];
    try {
      const updated = await client.update(
        nodes,
        { ...node, apiVersion: 'v1', kind: 'Node', status: { ...node.status, conditions } },
        { subresource: 'status' },
      );
      if (readyStatus(node) === 'True')
        this.#options.recorder.event(node, 'Normal', 'NodeNotReady', `Node ${node.metadata?.name} status is now: NodeNotReady`);
      return updated;
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  /**
   * Updates the taints of a node from the node's conditions: NoSchedule taints at once; the NoExecute taint of a node that is not ready or
   * unreachable when the eviction rate of the zone permits. Returns the milliseconds until the rate permits it, or undefined.
   */
  async #syncTaints(node: Node, client: Client): Promise<number | undefined> {
    const status = (type: string) => node.status?.conditions?.find((condition) => condition.type === type)?.status;
    const desired: Taint[] = [];
    const ready = status('Ready');
    // a node without a Ready condition has neither taint, as upstream
    const readyTaint = ready === 'Unknown' ? unreachableTaint : ready === 'False' ? notReadyTaint : undefined;
    const existing = node.spec?.taints ?? [];
    let waitMs: number | undefined;
    if (readyTaint !== undefined) {
      desired.push({ key: readyTaint, effect: 'NoSchedule' });
      const isEvicting = existing.some(({ key, effect }) => (key === notReadyTaint || key === unreachableTaint) && effect === 'NoExecute');
      if (!this.#zones.allZonesFullyDisrupted) {
        waitMs = isEvicting ? 0 : this.#zones.tryEvict(node.metadata?.name ?? '', this.#options.clock.monotonic());
        if (waitMs === 0) desired.push({ key: readyTaint, effect: 'NoExecute' });
      }
    }
    for (const [type, key] of conditionTaints) if (status(type) === 'True') desired.push({ key, effect: 'NoSchedule' });
    if (node.spec?.unschedulable === true) desired.push({ key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' });
    const kept = existing.filter((each) => !isManaged(each) || desired.some((wanted) => isSameTaint(wanted, each)));
    const timeAdded = formatTime(this.#options.clock.now());
    const added = desired.filter((wanted) => !existing.some((each) => isSameTaint(wanted, each))).map((taint) => ({ ...taint, timeAdded }));
    const taints = [...kept, ...added];
    if (added.length > 0 || kept.length < existing.length)
      await client.update(nodes, { ...node, apiVersion: 'v1', kind: 'Node', spec: { ...node.spec, taints } });
    if (added.some(({ effect }) => effect === 'NoExecute')) this.#options.metrics.countEviction(zoneKeyOf(node));
    return waitMs;
  }

  /** Sets the Ready condition of the pods on an unreachable node to False, because the kubelet cannot report it. */
  async #markPodsNotReady(node: Node, client: Client): Promise<void> {
    const now = formatTime(this.#options.clock.now());
    for (const pod of this.#options.pods.byIndex(podsByNodeIndex, node.metadata?.name ?? '')) {
      const ready = conditionOf(pod, 'Ready');
      if (ready?.status !== 'True' || readyStatus(node) !== 'Unknown') continue;
      const conditions = (pod.status?.conditions ?? []).map((condition) =>
        condition.type === 'Ready' ? { ...condition, status: 'False', lastTransitionTime: now } : condition,
      );
      try {
        await client.update(
          podResource,
          { ...pod, apiVersion: 'v1', kind: 'Pod', status: { ...pod.status, conditions } },
          { subresource: 'status' },
        );
        this.#options.recorder.event(pod, 'Warning', 'NodeNotReady', 'Node is not ready');
      } catch (error) {
        if (!isStatus(error, 'NotFound')) throw error;
      }
    }
  }
}

const isNodeLease = ({ metadata }: KubeObject) => metadata?.namespace === leaseNamespace;
const heartbeat = (node: Node) => node.status?.conditions?.find(({ type }) => type === 'Ready')?.lastHeartbeatTime;
const readyStatus = (node: Node | undefined) => node?.status?.conditions?.find(({ type }) => type === 'Ready')?.status;

export default Controllers.plugin({
  id: 'controller-node-lifecycle',
  declares: { loop: 'node-lifecycle' },
  config: z.strictObject({
    gracePeriodSeconds: z.number().int().min(1).default(50),
    /** Seconds after which a node that has never posted a status counts as unreachable. */
    startupGracePeriodSeconds: z.number().int().min(1).default(60),
    /** Number of nodes per second that are evicted in each zone. */
    evictionRate: z.number().min(0).default(0.1),
    /** Number of nodes per second that are evicted in a large, partially disrupted zone. Small zones are not evicted while partially disrupted. */
    secondaryEvictionRate: z.number().min(0).default(0.01),
    /** Fraction of unready nodes at which a zone counts as partially disrupted. */
    unhealthyZoneThreshold: z.number().min(0).max(1).default(0.55),
    /** Number of nodes above which a zone is large. */
    largeClusterSize: z.number().int().min(0).default(50),
  }),
  needs: { informers: Informers, events: Events },
  create: ({ config, informers, events }, { clock, metrics }) =>
    new NodeLifecycleController({
      nodes: informers.forResource(nodes),
      pods: informers.forResource(podResource),
      leases: informers.forResource(leases), // all namespaces: shares the informer of the garbage collector
      recorder: events.recorder('node-controller'),
      clock,
      graceMs: config.gracePeriodSeconds * 1000,
      startupGraceMs: config.startupGracePeriodSeconds * 1000,
      rates: config,
      metrics: new EvictionMetrics(metrics),
    }),
});
