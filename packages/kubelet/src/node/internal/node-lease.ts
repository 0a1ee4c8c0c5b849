import { leases } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatMicroTime } from '@oarlock/api/values/time';
import type { Lease } from '@oarlock/api/types/coordination-v1';
import type { Node } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/primitives/backoff';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client } from '@oarlock/spi/client';

export interface NodeLeaseOptions {
  readonly nodeName: string;
  readonly client: Client;
  readonly clock: Clock;
  /** The timers of lease renewals that nodes share; by default `clock`. */
  readonly timers?: Pick<Clock, 'after'> | undefined;
  readonly random: () => number;
  readonly log: Logger;
  readonly durationSeconds: number;
  /** The renewal period. Milliseconds. */
  readonly periodMs: number;
  readonly signal: AbortSignal;
  /** Returns the Node object that owns a new Lease, so that the Lease is garbage collected with the Node. */
  owner(): Node | undefined;
  /** Called when the existing Lease was deleted, because the API server may have lost its state. */
  lost(): void;
}

const namespace = 'kube-node-lease';
const jitter = 0.04;

/** The node's heartbeat: a Lease that is renewed while the kubelet runs (KEP-589). */
export class NodeLease {
  readonly #options: NodeLeaseOptions;
  readonly #backoff: Backoff;
  #lease: Lease | undefined;
  #timer: Timer | undefined;

  constructor(options: NodeLeaseOptions) {
    this.#options = options;
    this.#backoff = new Backoff({ firstMs: 200, longestMs: 7000, jitter: 0.5, random: options.random });
  }

  /** Resolves after the first renewal and schedules the next ones. Renewals of many nodes are spread over the period. */
  async start(): Promise<void> {
    const { random, periodMs } = this.#options;
    const ok = await this.#renew();
    this.#schedule(ok ? periodMs * (0.2 + 0.8 * random()) : this.#backoff.next());
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #schedule(ms: number): void {
    const { clock, timers: ticks, signal, periodMs, random } = this.#options;
    if (signal.aborted) return;
    this.#timer = (ticks ?? clock).after(ms, () => {
      // nodes that share ticks were spread at the start and keep their phase
      const next = ticks ? periodMs : periodMs * (1 + jitter * random());
      void this.#renew().then((ok) => this.#schedule(ok ? next : this.#backoff.next()));
    });
  }

  async #renew(): Promise<boolean> {
    const { client, nodeName, clock, log, signal, durationSeconds, lost } = this.#options;
    const name = { namespace, name: nodeName };
    const spec = { holderIdentity: nodeName, leaseDurationSeconds: durationSeconds, renewTime: formatMicroTime(clock.now()) };
    try {
      if (this.#lease === undefined) this.#lease = await client.create(leases, this.#fresh(spec), { signal });
      else this.#lease = await client.update(leases, { ...this.#lease, spec: { ...this.#lease.spec, ...spec } }, { signal });
      this.#backoff.reset();
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      if (isStatus(error, 'AlreadyExists', 'Conflict')) this.#lease = await client.get(leases, name, { signal }).catch(() => undefined);
      else if (isStatus(error, 'NotFound') && this.#lease !== undefined) {
        this.#lease = undefined;
        lost();
      } else
        log[this.#backoff.failures > 1 ? 'warn' : 'debug']({ err: error, node: nodeName }, "renewing the node's lease failed; retrying");
      return false;
    }
  }

  #fresh(spec: NonNullable<Lease['spec']>): Lease {
    const owner = this.#options.owner();
    const uid = owner?.metadata?.uid;
    const { nodeName } = this.#options;
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: {
        name: nodeName,
        namespace,
        ...(uid !== undefined && { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: nodeName, uid }] }),
      },
      spec,
    };
  }
}
