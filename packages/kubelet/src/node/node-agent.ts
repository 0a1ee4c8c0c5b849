import { jsonEqual } from '@oarlock/api/json/json';
import { nodes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Node, NodeStatus, Taint } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/primitives/backoff';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { kubeletCertificate } from '@oarlock/spi/cluster';
import type { Client, EventRecorder } from '@oarlock/spi/client';
import { kubeletOwnerId } from '../runtime/labels.ts';
import type { KubeletContext, NodeContext } from '../pod/node-context.ts';
import type { Resources } from '../pod-util/resources.ts';
import { NodeLease } from './internal/node-lease.ts';
import { PodWorkers } from '../pod/worker/pod-workers.ts';
import type { NodePressure } from '../pod-util/node-pressure.ts';
import { generateNodeStatus, nodeStatusPatch, runtimeConditions, sameNodeStatus, type NodeStatusInputs } from './internal/node-status.ts';

/** The current state that all nodes of a process share. */
export interface NodeState extends Omit<NodeStatusInputs, 'hostname' | 'advertisedCapacity'> {
  readonly networkReady: boolean;
  readonly networkNotReadyMessage: string;
  readonly shuttingDown: boolean;
}

export interface NodeAgentOptions {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** True if the cluster's CA issued the certificate of the kubelet's server. */
  readonly servesClusterCertificate: boolean;
  readonly taints: readonly Taint[];
  readonly podCIDR: string | undefined;
  /** The period of lease renewals. Milliseconds. */
  readonly leasePeriodMs: number;
  readonly leaseDurationSeconds: number;
  /** The timers of lease renewals that nodes share; undefined if the process has one node. */
  readonly timers?: Pick<Clock, 'after'> | undefined;
  readonly statusReportMs: number;
  readonly registerNode: boolean;
  /** True if the process runs many nodes, which then record no events about themselves. */
  readonly suppressNodeEvents: boolean;
  readonly recorder: EventRecorder;
  nodeState(): NodeState;
  /** Called when `spec.podCIDRs` of the node is set or changes. */
  podCIDRsChanged(cidrs: readonly string[]): void;
}

/** One node of the process: its Node object, its lease and its pods. */
export class NodeAgent {
  readonly name: string;
  readonly context: NodeContext;
  readonly pods: PodWorkers;
  readonly #options: NodeAgentOptions;
  readonly #shared: KubeletContext;
  readonly #log: Logger;
  readonly #lease: NodeLease;
  #node: Node | undefined;
  #reported: NodeStatus | undefined;
  #nextReport = 0;
  /** The inputs of the last status report that found no change to send. */
  #unchanged: readonly [Node, NodeState] | undefined;
  #sending: Promise<void> | undefined;
  #cidrs: readonly string[] = [];

  constructor(shared: KubeletContext, options: NodeAgentOptions) {
    this.#shared = shared;
    this.#options = options;
    this.name = options.name;
    this.#log = shared.log.child({ node: options.name });
    const { nodeState } = options;
    this.context = {
      ...shared,
      name: options.name,
      log: this.#log,
      recorder: options.recorder,
      owner: kubeletOwnerId(shared.facts.name, options.name, shared.paths.root),
      get cgroupV2(): boolean {
        return nodeState().machine.cgroupV2;
      },
      get capacity(): Resources {
        return nodeState().capacity;
      },
      get allocatable(): Resources {
        return nodeState().allocatable;
      },
      get pressure(): NodePressure {
        return nodeState().pressure;
      },
      get shuttingDown(): boolean {
        return nodeState().shuttingDown;
      },
      get addresses(): readonly string[] {
        return nodeState().addresses;
      },
      get networkReady(): boolean {
        return nodeState().networkReady;
      },
      get networkNotReadyMessage(): string {
        return nodeState().networkNotReadyMessage;
      },
    };
    this.pods = new PodWorkers(this.context, () => this.#node);
    this.#lease = new NodeLease({
      nodeName: options.name,
      client: shared.client,
      clock: shared.clock,
      timers: options.timers,
      random: shared.random,
      log: this.#log,
      durationSeconds: options.leaseDurationSeconds,
      periodMs: options.leasePeriodMs,
      signal: shared.signal,
      owner: () => this.#node,
      lost: () => {
        this.#nextReport = 0;
      },
    });
  }

  get owner(): string {
    return this.context.owner;
  }
  /** The Node object; undefined until the node is registered. */
  get node(): Node | undefined {
    return this.#node;
  }
  get registered(): boolean {
    return this.#node !== undefined;
  }

  /** Registers the node and starts its Lease. Retries until the registration succeeds or the signal aborts. */
  async start(): Promise<void> {
    const { clock, random, signal } = this.#shared;
    const backoff = new Backoff({ firstMs: 100, longestMs: 7000, jitter: 0.5, random });
    for (;;) {
      try {
        await this.#register(this.#shared.client);
        break;
      } catch (error) {
        signal.throwIfAborted();
        this.#log[backoff.failures > 2 ? 'warn' : 'debug']({ err: error }, 'registering the node failed; retrying');
        await clock.sleep(backoff.next(), signal);
      }
    }
    if (!this.#options.suppressNodeEvents) this.recordNodeEvent('Normal', 'Starting', 'Starting kubelet.');
    await this.#lease.start();
  }

  stop(): void {
    this.#lease.stop();
    this.pods.close();
  }

  /** Handles a watch event of the Node object. */
  nodeUpdated(node: Node): void {
    this.#node = node;
    const cidrs =
      node.spec?.podCIDRs ??
      (node.spec?.podCIDR ? [node.spec.podCIDR] : this.#options.podCIDR !== undefined ? [this.#options.podCIDR] : []);
    if (cidrs.length === 0 || jsonEqual(cidrs, this.#cidrs)) return;
    this.#cidrs = cidrs;
    this.#options.podCIDRsChanged(cidrs);
  }

  /** Reports the node status if the status changed or the report period has passed. */
  async report(): Promise<void> {
    if (this.#sending || this.#node === undefined) return this.#sending;
    const now = this.#shared.clock.monotonic();
    const nodeState = this.#options.nodeState();
    const [node, seen] = this.#unchanged ?? [];
    if (now < this.#nextReport && node === this.#node && seen === nodeState) return;
    // the node lifecycle controller overwrites the conditions of a silent node: compare with what it wrote
    if (this.#statusOverwritten(this.#node)) this.#reported = this.#node.status;
    const status = this.#status();
    if (now < this.#nextReport && sameNodeStatus(this.#reported, status)) {
      this.#unchanged = [this.#node, nodeState];
      return;
    }
    this.#sending = this.#send(status).finally(() => {
      this.#sending = undefined;
    });
    return this.#sending;
  }

  #statusOverwritten({ status }: Node): boolean {
    return (
      this.#reported?.conditions?.some((ours) => status?.conditions?.find(({ type }) => type === ours.type)?.status !== ours.status) ===
      true
    );
  }

  #status(): NodeStatus {
    const advertised = this.#node?.status?.capacity;
    return generateNodeStatus(
      { ...this.#options.nodeState(), advertisedCapacity: advertised, hostname: this.name },
      this.#reported,
      this.#shared.clock.now(),
    );
  }

  async #send(status: NodeStatus): Promise<void> {
    const { client, clock, random, signal } = this.#shared;
    const before = this.#reported;
    try {
      this.#node = await client.patch(nodes, { name: this.name }, 'strategic', nodeStatusPatch(before, status), {
        subresource: 'status',
        signal,
      });
      this.#reported = status;
      this.#nextReport = clock.monotonic() + this.#options.statusReportMs * (0.75 + 0.5 * random());
      this.#recordConditionChanges(before, status);
    } catch (error) {
      if (signal.aborted) return;
      // an API server that lost its state needs the node again
      if (isStatus(error, 'NotFound') && this.#options.registerNode)
        await this.#register(client).catch((again: unknown) => this.#log.warn({ err: again }, 'registering the node again failed'));
      else this.#log.warn({ err: error }, 'sending the node status failed');
    }
  }

  async #register(client: Client): Promise<void> {
    const { signal, clock, random } = this.#shared;
    const status = this.#status();
    const newNode: Node = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: {
        name: this.name,
        labels: { ...this.#ownLabels(), ...this.#options.labels },
        annotations: { 'volumes.kubernetes.io/controller-managed-attach-detach': 'true', ...this.#ownAnnotations() },
      },
      spec: { ...(this.#options.taints.length > 0 && { taints: this.#options.taints }) },
      status,
    };
    let node: Node;
    try {
      node = this.#options.registerNode
        ? await client.create(nodes, newNode, { signal })
        : await client.get(nodes, { name: this.name }, { signal });
    } catch (error) {
      if (!isStatus(error, 'AlreadyExists')) throw error;
      node = await this.#reconcile(client, await client.get(nodes, { name: this.name }, { signal }));
    }
    this.#reported = node.status;
    this.nodeUpdated(node);
    // upstream records these at each start; NodeReady follows when the node becomes ready
    this.#recordConditionChanges(undefined, { ...status, conditions: (status.conditions ?? []).filter(({ type }) => type !== 'Ready') });
    const current = sameNodeStatus(node.status, status);
    this.#nextReport = current ? clock.monotonic() + this.#options.statusReportMs * (0.5 + random()) : 0;
    if (!current) await this.report();
  }

  /** Updates the labels and annotations of an existing Node object that the kubelet owns, and keeps all others. */
  async #reconcile(client: Client, node: Node): Promise<Node> {
    const own = { labels: this.#ownLabels(), annotations: { [kubeletCertificate.annotation]: null, ...this.#ownAnnotations() } };
    const { labels = {}, annotations = {} } = node.metadata ?? {};
    const equalsIn =
      (held: Readonly<Record<string, string>>) =>
      ([key, text]: readonly [string, string | null]) =>
        (held[key] ?? null) === text;
    if (Object.entries(own.labels).every(equalsIn(labels)) && Object.entries(own.annotations).every(equalsIn(annotations))) return node;
    return client.patch(nodes, { name: this.name }, 'merge', { metadata: own }, { signal: this.#shared.signal });
  }

  #ownAnnotations(): Readonly<Record<string, string>> {
    return this.#options.servesClusterCertificate ? { [kubeletCertificate.annotation]: kubeletCertificate.ofCluster } : {};
  }

  #ownLabels(): Readonly<Record<string, string>> {
    const { architecture } = this.#options.nodeState().machine;
    return {
      'kubernetes.io/hostname': this.name,
      'kubernetes.io/os': 'linux',
      'kubernetes.io/arch': architecture,
      'beta.kubernetes.io/os': 'linux',
      'beta.kubernetes.io/arch': architecture,
    };
  }

  /** Records an event for each node condition that changed. */
  #recordConditionChanges(before: NodeStatus | undefined, after: NodeStatus): void {
    if (this.#options.suppressNodeEvents) return;
    const reasons: Readonly<Record<string, readonly [string, string]>> = {
      MemoryPressure: ['NodeHasInsufficientMemory', 'NodeHasSufficientMemory'],
      DiskPressure: ['NodeHasDiskPressure', 'NodeHasNoDiskPressure'],
      PIDPressure: ['NodeHasInsufficientPID', 'NodeHasSufficientPID'],
      Ready: ['NodeReady', 'NodeNotReady'],
    };
    for (const { type, status, reason: conditionReason = '', message = '' } of after.conditions ?? []) {
      if (before?.conditions?.find((condition) => condition.type === type)?.status === status) continue;
      if (runtimeConditions.includes(type) && status === 'False') this.recordNodeEvent('Warning', conditionReason, message);
      const reason = reasons[type]?.[status === 'True' ? 0 : 1];
      if (reason !== undefined) this.recordNodeEvent('Normal', reason, `Node ${this.name} status is now: ${reason}`);
    }
  }

  /** Records an event about the node. As upstream, involvedObject.uid is the node's name; `kubectl describe node` searches for the uid as well. */
  recordNodeEvent(type: 'Normal' | 'Warning', reason: string, message: string): void {
    this.#options.recorder.event({ apiVersion: 'v1', kind: 'Node', metadata: { name: this.name, uid: this.name } }, type, reason, message);
  }
}
