import { jsonEqual } from '@oarlock/api/json';
import { nodes } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Node, NodeStatus, Taint } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/client/backoff';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { kubeletCertificate } from '@oarlock/spi/cluster';
import type { Client, EventRecorder } from '@oarlock/spi/client';
import { ownerId } from '../labels.ts';
import type { KubeletContext, NodeContext } from '../node-context.ts';
import type { Amounts } from '../resources.ts';
import { NodeLease } from './node-lease.ts';
import { NodePods } from './node-pods.ts';
import type { Pressure } from './thresholds.ts';
import { nodeStatus, nodeStatusPatch, sameNodeStatus, type NodeStatusSources } from './node-status.ts';

/** What the nodes of a process have in common, as it is at the moment. */
export interface NodeSituation extends Omit<NodeStatusSources, 'hostname' | 'advertised'> {
  readonly networkReady: boolean;
  readonly networkProblem: string;
  readonly goingDown: boolean;
}

export interface NodeAgentOptions {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The kubelet's server shows a certificate of the cluster's CA. */
  readonly certified: boolean;
  readonly taints: readonly Taint[];
  readonly podCIDR: string | undefined;
  /** Milliseconds. */
  readonly leasePeriodMs: number;
  readonly leaseDurationSeconds: number;
  /** What renewals wait on, when nodes share it. */
  readonly ticks?: Pick<Clock, 'after'> | undefined;
  readonly statusReportMs: number;
  readonly registers: boolean;
  /** One of many in this process: no events about itself. */
  readonly quiet: boolean;
  readonly recorder: EventRecorder;
  situation(): NodeSituation;
  /** `spec.podCIDRs` of the node are known, or have changed. */
  podCIDRs(cidrs: readonly string[]): void;
}

/** One node: its object, its heartbeat, its pods. */
export class NodeAgent {
  readonly name: string;
  readonly context: NodeContext;
  readonly pods: NodePods;
  readonly #options: NodeAgentOptions;
  readonly #shared: KubeletContext;
  readonly #log: Logger;
  readonly #lease: NodeLease;
  #node: Node | undefined;
  #reported: NodeStatus | undefined;
  #nextReport = 0;
  /** What the last look was at, when it found nothing to report. */
  #unchanged: readonly [Node, NodeSituation] | undefined;
  #sending: Promise<void> | undefined;
  #cidrs: readonly string[] = [];

  constructor(shared: KubeletContext, options: NodeAgentOptions) {
    this.#shared = shared;
    this.#options = options;
    this.name = options.name;
    this.#log = shared.log.child({ node: options.name });
    const { situation } = options;
    this.context = {
      ...shared,
      name: options.name,
      log: this.#log,
      recorder: options.recorder,
      owner: ownerId(shared.facts.name, options.name, shared.paths.root),
      get cgroupV2(): boolean {
        return situation().machine.cgroupV2;
      },
      get capacity(): Amounts {
        return situation().capacity;
      },
      get allocatable(): Amounts {
        return situation().allocatable;
      },
      get pressure(): Pressure {
        return situation().pressure;
      },
      get goingDown(): boolean {
        return situation().goingDown;
      },
      get addresses(): readonly string[] {
        return situation().addresses;
      },
      get networkReady(): boolean {
        return situation().networkReady;
      },
      get networkProblem(): string {
        return situation().networkProblem;
      },
    };
    this.pods = new NodePods(this.context, () => this.#node);
    this.#lease = new NodeLease({
      nodeName: options.name,
      client: shared.client,
      clock: shared.clock,
      ticks: options.ticks,
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
  /** The node's object, once it is registered. */
  get node(): Node | undefined {
    return this.#node;
  }
  get registered(): boolean {
    return this.#node !== undefined;
  }

  /** Registers the node and begins its heartbeat. Tries until it succeeds or the signal aborts. */
  async start(): Promise<void> {
    const { clock, random, signal } = this.#shared;
    const backoff = new Backoff({ firstMs: 100, longestMs: 7000, jitter: 0.5, random });
    for (;;) {
      try {
        await this.#register(this.#shared.client);
        break;
      } catch (error) {
        signal.throwIfAborted();
        this.#log[backoff.failures > 2 ? 'warn' : 'debug']({ err: error }, 'the node could not be registered; trying again');
        await clock.sleep(backoff.next(), signal);
      }
    }
    if (!this.#options.quiet) this.tell('Normal', 'Starting', 'Starting kubelet.');
    await this.#lease.start();
  }

  stop(): void {
    this.#lease.stop();
    this.pods.close();
  }

  /** The node's object, from a watch. */
  observed(node: Node): void {
    this.#node = node;
    const cidrs =
      node.spec?.podCIDRs ??
      (node.spec?.podCIDR ? [node.spec.podCIDR] : this.#options.podCIDR !== undefined ? [this.#options.podCIDR] : []);
    if (cidrs.length === 0 || jsonEqual(cidrs, this.#cidrs)) return;
    this.#cidrs = cidrs;
    this.#options.podCIDRs(cidrs);
  }

  /** Reports the status when it has changed, or when it is time to. */
  async report(): Promise<void> {
    if (this.#sending || this.#node === undefined) return this.#sending;
    const now = this.#shared.clock.monotonic();
    const situation = this.#options.situation();
    const [node, seen] = this.#unchanged ?? [];
    if (now < this.#nextReport && node === this.#node && seen === situation) return;
    // the control plane took a node that was silent for lost: what it wrote is what there is to put right
    if (this.#contradicted(this.#node)) this.#reported = this.#node.status;
    const status = this.#status();
    if (now < this.#nextReport && sameNodeStatus(this.#reported, status)) {
      this.#unchanged = [this.#node, situation];
      return;
    }
    this.#sending = this.#send(status).finally(() => {
      this.#sending = undefined;
    });
    return this.#sending;
  }

  #contradicted({ status }: Node): boolean {
    return (
      this.#reported?.conditions?.some((ours) => status?.conditions?.find(({ type }) => type === ours.type)?.status !== ours.status) ===
      true
    );
  }

  #status(): NodeStatus {
    const advertised = this.#node?.status?.capacity;
    return nodeStatus({ ...this.#options.situation(), advertised, hostname: this.name }, this.#reported, this.#shared.clock.now());
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
      this.#tellChanges(before, status);
    } catch (error) {
      if (signal.aborted) return;
      // a server that lost its state gets its node again
      if (isStatus(error, 'NotFound') && this.#options.registers)
        await this.#register(client).catch((again: unknown) => this.#log.warn({ err: again }, 'the node could not be registered again'));
      else this.#log.warn({ err: error }, "the node's status could not be sent");
    }
  }

  async #register(client: Client): Promise<void> {
    const { signal, clock, random } = this.#shared;
    const status = this.#status();
    const made: Node = {
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
      node = this.#options.registers
        ? await client.create(nodes, made, { signal })
        : await client.get(nodes, { name: this.name }, { signal });
    } catch (error) {
      if (!isStatus(error, 'AlreadyExists')) throw error;
      node = await this.#reconcile(client, await client.get(nodes, { name: this.name }, { signal }));
    }
    this.#reported = node.status;
    this.observed(node);
    // as kubelets do at each start; that the node is ready is told when it becomes so
    this.#tellChanges(undefined, { ...status, conditions: (status.conditions ?? []).filter(({ type }) => type !== 'Ready') });
    const current = sameNodeStatus(node.status, status);
    this.#nextReport = current ? clock.monotonic() + this.#options.statusReportMs * (0.5 + random()) : 0;
    if (!current) await this.report();
  }

  /** A node that was registered before keeps what others wrote; what it says of itself is brought up to date. */
  async #reconcile(client: Client, node: Node): Promise<Node> {
    const own = { labels: this.#ownLabels(), annotations: { [kubeletCertificate.annotation]: null, ...this.#ownAnnotations() } };
    const { labels = {}, annotations = {} } = node.metadata ?? {};
    const says =
      (held: Readonly<Record<string, string>>) =>
      ([key, text]: readonly [string, string | null]) =>
        (held[key] ?? null) === text;
    if (Object.entries(own.labels).every(says(labels)) && Object.entries(own.annotations).every(says(annotations))) return node;
    return client.patch(nodes, { name: this.name }, 'merge', { metadata: own }, { signal: this.#shared.signal });
  }

  #ownAnnotations(): Readonly<Record<string, string>> {
    return this.#options.certified ? { [kubeletCertificate.annotation]: kubeletCertificate.ofCluster } : {};
  }

  #ownLabels(): Readonly<Record<string, string>> {
    const { architecture } = this.#options.situation().machine;
    return {
      'kubernetes.io/hostname': this.name,
      'kubernetes.io/os': 'linux',
      'kubernetes.io/arch': architecture,
      'beta.kubernetes.io/os': 'linux',
      'beta.kubernetes.io/arch': architecture,
    };
  }

  /** Says which conditions have changed. */
  #tellChanges(before: NodeStatus | undefined, after: NodeStatus): void {
    if (this.#options.quiet) return;
    const reasons: Readonly<Record<string, readonly [string, string]>> = {
      MemoryPressure: ['NodeHasInsufficientMemory', 'NodeHasSufficientMemory'],
      DiskPressure: ['NodeHasDiskPressure', 'NodeHasNoDiskPressure'],
      PIDPressure: ['NodeHasInsufficientPID', 'NodeHasSufficientPID'],
      Ready: ['NodeReady', 'NodeNotReady'],
    };
    for (const { type, status } of after.conditions ?? []) {
      if (before?.conditions?.find((condition) => condition.type === type)?.status === status) continue;
      const reason = reasons[type]?.[status === 'True' ? 0 : 1];
      if (reason !== undefined) this.tell('Normal', reason, `Node ${this.name} status is now: ${reason}`);
    }
  }

  /** An event about the node. Kubelets name their node by its name where a uid would stand; describe looks for both. */
  tell(type: 'Normal' | 'Warning', reason: string, message: string): void {
    this.#options.recorder.event({ apiVersion: 'v1', kind: 'Node', metadata: { name: this.name, uid: this.name } }, type, reason, message);
  }
}
