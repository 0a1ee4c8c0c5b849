import type { Pod, PodStatus } from '@oarlock/api/types/core-v1';
import type { StartFailure } from '../status/container-status.ts';
import type { NodeContext, PodRuntime } from './node-context.ts';
import { RuntimePodStatus } from '../runtime/runtime-pod-status.ts';
import type { ProbeManager } from '../probes/probe-manager.ts';
import type { PodResize } from './pod-resize.ts';
import { RestartBackoff } from '../pod-util/restart-backoff.ts';
import type { StatusSubject } from '../status/status-manager.ts';
import type { PodVolumes } from '../volumes/volume-manager.ts';

const empty: ReadonlyMap<string, never> = new Map<string, never>();

/**
 * The in-memory state that the kubelet keeps of one pod. All of it can be rebuilt from the runtime, the API and the disk. Parts that most pods
 * never need are created on first use.
 */
export class PodRecord implements StatusSubject {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly node: NodeContext;
  /** The newest spec and metadata of the pod, with the allocated resources (KEP-1287). */
  pod: Pod;
  apiPod: Pod | undefined;
  /** True for a static pod, whose `apiPod` is its mirror pod. */
  static = false;
  versionedStatus: StatusSubject['versionedStatus'];
  /** The status that was last passed to the status manager. */
  status: PodStatus | undefined;
  runtime: PodRuntime | undefined;
  handler = '';
  readonly state = new RuntimePodStatus();
  probes: ProbeManager | undefined;
  /** The state of the pod's resizes; set when the pod's requested resources first differ from the allocated resources. */
  resize: PodResize | undefined;
  /** True while all containers are terminated in order to restart them (KEP-5532). */
  restartingAllContainers = false;
  /** True if the runtime already had the pod when the kubelet started. */
  adopted = false;
  readonly startedAt: number;
  /** Time spent on pulling images of the pod's containers. Milliseconds. */
  imagePullMs = 0;
  /** True if the startup latency of the pod was observed. */
  startLatencyReported = false;
  #failures: Map<string, StartFailure> | undefined;
  #messages: Map<string, string> | undefined;
  #backoff: RestartBackoff | undefined;
  #volumes: PodVolumes | undefined;

  constructor(node: NodeContext, pod: Pod, api: Pod | undefined) {
    const { uid = '', namespace = '', name = '' } = pod.metadata ?? {};
    this.node = node;
    this.pod = pod;
    this.apiPod = api;
    this.uid = uid;
    this.namespace = namespace;
    this.name = name;
    this.startedAt = node.clock.now();
  }

  get apiUid(): string | undefined {
    return this.static ? this.apiPod?.metadata?.uid : this.uid;
  }
  get key(): string {
    return `${this.namespace}/${this.name}`;
  }

  /** The last start error of each container that does not run, keyed by container name. */
  get startFailures(): ReadonlyMap<string, StartFailure> {
    return this.#failures ?? empty;
  }
  setStartFailure(container: string, failure: StartFailure): void {
    (this.#failures ??= new Map()).set(container, failure);
  }
  clearStartFailure(container: string): void {
    this.#failures?.delete(container);
  }

  /** Termination messages, keyed by container id. */
  get terminationMessages(): ReadonlyMap<string, string> {
    return this.#messages ?? empty;
  }
  setTerminationMessage(id: string, message: string): void {
    (this.#messages ??= new Map()).set(id, message);
  }
  pruneTerminationMessages(keep: (id: string) => boolean): void {
    for (const id of this.#messages?.keys() ?? []) if (!keep(id)) this.#messages?.delete(id);
  }

  get backoff(): RestartBackoff {
    return (this.#backoff ??= new RestartBackoff());
  }
  get volumes(): PodVolumes {
    return (this.#volumes ??= new Map());
  }

  event(type: 'Normal' | 'Warning', reason: string, message: string, fieldPath?: string): void {
    this.node.recorder.event(this.pod, type, reason, message, fieldPath);
  }
}
