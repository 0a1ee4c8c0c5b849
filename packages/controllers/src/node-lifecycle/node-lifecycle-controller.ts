import { leases, nodes, pods as podResource } from '@oarlock/api/resources';
import type { KubeObject } from '@oarlock/api/object';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { Node, NodeCondition, Pod, Taint } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Events, Informers, type Client, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { conditionOf } from '../pod-state.ts';
import { EvictionZones, type EvictionRates } from './eviction-zones.ts';
import { byNode, nodeOf } from '../pods-by-node.ts';

const leaseNamespace = 'kube-node-lease';
const notReady = 'node.kubernetes.io/not-ready';
const unreachable = 'node.kubernetes.io/unreachable';
/** Conditions that keep new pods off a node, with the taint that does it. */
const pressures: readonly (readonly [condition: string, taint: string])[] = [
  ['MemoryPressure', 'node.kubernetes.io/memory-pressure'],
  ['DiskPressure', 'node.kubernetes.io/disk-pressure'],
  ['PIDPressure', 'node.kubernetes.io/pid-pressure'],
  ['NetworkUnavailable', 'node.kubernetes.io/network-unavailable'],
];
const watched = ['Ready', 'MemoryPressure', 'DiskPressure', 'PIDPressure'];
const ours: ReadonlySet<string> = new Set([
  notReady,
  unreachable,
  'node.kubernetes.io/unschedulable',
  ...pressures.map(([, taint]) => taint),
]);

interface Parts {
  readonly nodes: Informer<Node>;
  readonly pods: Informer<Pod>;
  readonly leases: Informer;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  readonly graceMs: number;
  readonly rates: EvictionRates;
}

/**
 * Notices nodes that have gone silent, by their Lease, and says so in their conditions and taints. A node is given the whole grace period
 * from when this process first hears of it, so that a restart of the control plane takes no node for lost.
 */
export class NodeLifecycleController implements Controller {
  readonly name = 'node-lifecycle';
  readonly watches;
  readonly #parts: Parts;
  /** When each node was last heard of, on the monotonic clock. */
  readonly #heard = new Map<string, number>();
  readonly #zones: EvictionZones;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#zones = new EvictionZones(parts.rates);
    parts.pods.addIndex(byNode, nodeOf);
    const hear = ({ metadata }: { readonly metadata?: { readonly name?: string } }) => {
      this.#heard.set(metadata?.name ?? '', parts.clock.monotonic());
    };
    parts.leases.on({
      added: (lease) => {
        if (isOfNode(lease)) hear(lease);
      },
      updated: (lease, old) => {
        if (lease !== old && isOfNode(lease)) hear(lease);
      },
    });
    parts.nodes.on({
      // a node's own report counts as well as its lease: one that comes back may send it first
      updated: (node, old) => {
        if (heartbeat(node) !== heartbeat(old)) hear(node);
      },
      added: (node) => this.#tell(node, 'RegisteredNode', 'Registered', 'in'),
      deleted: (node) => {
        this.#heard.delete(node.metadata?.name ?? '');
        this.#tell(node, 'RemovingNode', 'Removing', 'from');
      },
    });
    this.watches = [
      watch(parts.pods, () => []), // only asked, but it has to be there first
      watch(parts.nodes, (node) => this.#concernedBy(node)),
      // a lease is of interest only when it comes back after silence: otherwise the timer below looks
      watch(parts.leases, (lease) => {
        const name = lease.metadata?.name ?? '';
        return isOfNode(lease) && readyStatus(parts.nodes.get(name)) === 'Unknown' ? [name] : [];
      }),
    ];
  }

  #tell(node: Node, reason: string, what: string, where: string): void {
    const name = node.metadata?.name ?? '';
    this.#parts.recorder.event(node, 'Normal', reason, `Node ${name} event: ${what} Node ${name} ${where} Controller`);
  }

  /** The state of a zone, or of all, says whether pods are evicted from its nodes. */
  *#concernedBy(node: Node): Iterable<string> {
    const name = node.metadata?.name ?? '';
    yield name;
    const wasLost = this.#zones.allLost;
    const others = this.#parts.nodes.get(name) === undefined ? this.#zones.remove(name) : this.#zones.put(node);
    // after everything was lost nobody is judged by what happened meanwhile
    if (wasLost && !this.#zones.allLost) for (const known of this.#heard.keys()) this.#heard.set(known, this.#parts.clock.monotonic());
    yield* others;
  }

  async reconcile(name: string, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const { nodes: all, clock, graceMs } = this.#parts;
    let node = all.get(name);
    if (node === undefined) return undefined;
    const heard = this.#heard.get(name) ?? clock.monotonic();
    this.#heard.set(name, heard);
    const left = heard + graceMs - clock.monotonic();
    if (left <= 0 && readyStatus(node) !== 'Unknown') node = await this.#markUnknown(node, client);
    if (node === undefined) return undefined;
    const waitMs = await this.#taint(node, client);
    if (readyStatus(node) !== 'True') await this.#markPods(node, client);
    const waits = [left, waitMs ?? 0].filter((ms) => ms > 0);
    return waits.length > 0 ? { requeueAfterMs: Math.min(...waits) } : undefined;
  }

  async #markUnknown(node: Node, client: Client): Promise<Node | undefined> {
    const now = formatTime(this.#parts.clock.now());
    const present = node.status?.conditions ?? [];
    const conditions = [
      ...present.filter(({ type }) => !watched.includes(type)),
      ...watched.map((type): NodeCondition => {
        const old = present.find((condition) => condition.type === type);
        if (old === undefined)
          return {
            type,
            status: 'Unknown',
            reason: 'NodeStatusNeverUpdated',
            message: 'Kubelet never posted node status.',
            lastHeartbeatTime: node.metadata?.creationTimestamp ?? now,
            lastTransitionTime: now,
          };
        return {
          ...old,
          status: 'Unknown',
          reason: 'NodeStatusUnknown',
          message: 'Kubelet stopped posting node status.',
          lastTransitionTime: old.status === 'Unknown' ? (old.lastTransitionTime ?? now) : now,
        };
      }),
    ];
    try {
      const updated = await client.update(
        nodes,
        { ...node, apiVersion: 'v1', kind: 'Node', status: { ...node.status, conditions } },
        { subresource: 'status' },
      );
      this.#parts.recorder.event(node, 'Normal', 'NodeNotReady', `Node ${node.metadata?.name} status is now: NodeNotReady`);
      return updated;
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  /**
   * Taints follow conditions: NoSchedule for each at once, and NoExecute for a node that is not ready or not reached when the rate of its zone
   * allows. Returns the milliseconds to wait for that.
   */
  async #taint(node: Node, client: Client): Promise<number | undefined> {
    const status = (type: string) => node.status?.conditions?.find((condition) => condition.type === type)?.status;
    const wanted: Taint[] = [];
    const ready = status('Ready');
    const lost = ready === 'True' ? undefined : ready === 'Unknown' ? unreachable : notReady;
    const present = node.spec?.taints ?? [];
    const timeOf = (key: string) =>
      present.find((taint) => taint.key === key && taint.effect === 'NoExecute')?.timeAdded ?? formatTime(this.#parts.clock.now());
    let waitMs: number | undefined;
    if (lost !== undefined) {
      wanted.push({ key: lost, effect: 'NoSchedule' });
      const pushed = present.some(({ key, effect }) => (key === notReady || key === unreachable) && effect === 'NoExecute');
      if (ready !== undefined && !this.#zones.allLost) {
        waitMs = pushed ? 0 : this.#zones.take(node.metadata?.name ?? '', this.#parts.clock.monotonic());
        if (waitMs === 0) wanted.push({ key: lost, effect: 'NoExecute', timeAdded: timeOf(lost) });
      }
    }
    for (const [type, key] of pressures) if (status(type) === 'True') wanted.push({ key, effect: 'NoSchedule' });
    if (node.spec?.unschedulable === true) wanted.push({ key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' });
    const taints = [...present.filter(({ key }) => !ours.has(key)), ...wanted];
    const text = (list: readonly Taint[]) => JSON.stringify(list.map(({ key, effect, value }) => `${key}=${value ?? ''}:${effect}`).sort());
    if (text(taints) !== text(present))
      await client.update(nodes, { ...node, apiVersion: 'v1', kind: 'Node', spec: { ...node.spec, taints } });
    return waitMs;
  }

  /** Nobody on a lost node can say that its pods are not ready any more. */
  async #markPods(node: Node, client: Client): Promise<void> {
    const now = formatTime(this.#parts.clock.now());
    for (const pod of this.#parts.pods.byIndex(byNode, node.metadata?.name ?? '')) {
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
        this.#parts.recorder.event(pod, 'Warning', 'NodeNotReady', 'Node is not ready');
      } catch (error) {
        if (!isStatus(error, 'NotFound')) throw error;
      }
    }
  }
}

const isOfNode = ({ metadata }: KubeObject) => metadata?.namespace === leaseNamespace;
const heartbeat = (node: Node) => node.status?.conditions?.find(({ type }) => type === 'Ready')?.lastHeartbeatTime;
const readyStatus = (node: Node | undefined) => node?.status?.conditions?.find(({ type }) => type === 'Ready')?.status;

export default Controllers.plugin({
  id: 'controller-node-lifecycle',
  declares: { loop: 'node-lifecycle' },
  config: z.strictObject({
    gracePeriodSeconds: z.number().int().min(1).default(50),
    /** Nodes a second and zone from which pods are evicted. */
    evictionRate: z.number().min(0).default(0.1),
    /** The same in a large zone of which much is lost; small ones are left alone then. */
    secondaryEvictionRate: z.number().min(0).default(0.01),
    /** How much of a zone has to be lost for that. */
    unhealthyZoneThreshold: z.number().min(0).max(1).default(0.55),
    /** Zones of more nodes are large. */
    largeClusterSize: z.number().int().min(0).default(50),
  }),
  needs: { informers: Informers, events: Events },
  create: ({ config, informers, events }, { clock }) =>
    new NodeLifecycleController({
      nodes: informers.of(nodes),
      pods: informers.of(podResource),
      leases: informers.of(leases), // of all namespaces, as the garbage collector's: one copy and one watch
      recorder: events.recorder('node-controller'),
      clock,
      graceMs: config.gracePeriodSeconds * 1000,
      rates: config,
    }),
});
