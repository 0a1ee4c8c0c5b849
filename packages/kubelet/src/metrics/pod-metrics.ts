import { Counter, Histogram, type Registry } from 'prom-client';

/** What a pass of a pod worker handled: a new pod, a change of the pod, the pod's removal, or anything else (SyncPodType upstream). */
export type PodUpdateType = 'create' | 'update' | 'sync' | 'kill';
type ContainerKind = 'regular' | 'init' | 'ephemeral';

/** Upstream's metric label `container_type` of each kind of container. */
const containerTypes: Readonly<Record<ContainerKind, string>> = {
  regular: 'container',
  init: 'init_container',
  ephemeral: 'ephemeral_container',
};

/** The metrics of pod workers and of the pods and containers that they start. */
export class PodMetrics {
  readonly #workerDuration: Histogram<'operation_type'>;
  readonly #workerStart: Histogram;
  readonly #podsStarted: Counter;
  readonly #podErrors: Counter;
  readonly #containersStarted: Counter<'container_type'>;
  readonly #containerErrors: Counter<'container_type' | 'code'>;

  constructor(registers: Registry[]) {
    this.#workerDuration = new Histogram({
      name: 'kubelet_pod_worker_duration_seconds',
      help: 'Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync',
      registers,
      labelNames: ['operation_type'],
    });
    this.#workerStart = new Histogram({
      name: 'kubelet_pod_worker_start_duration_seconds',
      help: 'Duration in seconds from kubelet seeing a pod to starting a worker.',
      registers,
    });
    const counted = (name: string, help: string) => ({ name: `kubelet_started_${name}_total`, help, registers });
    this.#podsStarted = new Counter(counted('pods', 'Cumulative number of pods started'));
    this.#podErrors = new Counter(counted('pods_errors', 'Cumulative number of errors when starting pods'));
    this.#containersStarted = new Counter({
      ...counted('containers', 'Cumulative number of containers started'),
      labelNames: ['container_type'],
    });
    this.#containerErrors = new Counter({
      ...counted('containers_errors', 'Cumulative number of errors when starting containers'),
      labelNames: ['container_type', 'code'],
    });
  }

  /** Observes a pass. `seconds` is the time since the pass was enqueued. */
  synced(type: PodUpdateType, seconds: number): void {
    this.#workerDuration.observe({ operation_type: type }, seconds);
  }

  /** Observes the first pass of a pod. `seconds` is the time since the kubelet saw the pod. */
  workerStarted(seconds: number): void {
    this.#workerStart.observe(seconds);
  }

  /** Counts an attempt to create a pod sandbox. */
  podStarted(): void {
    this.#podsStarted.inc();
  }
  podFailed(): void {
    this.#podErrors.inc();
  }

  /** Counts an attempt to start a container. */
  containerStarted(kind: ContainerKind): void {
    this.#containersStarted.inc({ container_type: containerTypes[kind] });
  }

  /** Counts a failed attempt. `code` is the reason of the container's waiting state. */
  containerFailed(kind: ContainerKind, code: string): void {
    this.#containerErrors.inc({ container_type: containerTypes[kind], code });
  }
}
