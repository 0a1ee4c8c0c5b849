import type { Pod, PodStatus } from '@oarlock/api/types/core-v1';
import type { StartFailure } from './container-status.ts';
import type { NodeContext, PodRuntime } from './node-context.ts';
import { PodState } from './pod-state.ts';
import type { PodProbes } from './probes/pod-probes.ts';
import type { PodResize } from './pod-resize.ts';
import { RestartBackoff } from './restart-backoff.ts';
import type { StatusSubject } from './status-manager.ts';
import type { PodVolumes } from './volumes/volume-manager.ts';

const empty: ReadonlyMap<string, never> = new Map<string, never>();

/**
 * Everything a kubelet remembers of one pod. All of it can be lost: it is found again in the runtime, the API and on the disk.
 * What most pods never need is made when it is.
 */
export class PodRecord implements StatusSubject {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly node: NodeContext;
  /** What to run: the newest spec and metadata that were seen, with the resources that it was given. */
  pod: Pod;
  api: Pod | undefined;
  /** Not of the API: what that has is a mirror. */
  static = false;
  report: StatusSubject['report'];
  /** What was reported last. */
  status: PodStatus | undefined;
  runtime: PodRuntime | undefined;
  handler = '';
  readonly state = new PodState();
  probes: PodProbes | undefined;
  /** Made when the pod first asks for other resources than it was given. */
  resize: PodResize | undefined;
  /** All containers are being ended, to be started anew (KEP-5532). */
  restarting = false;
  /** Found in the runtime when the kubelet began, rather than started by it. */
  adopted = false;
  readonly startedAt: number;
  /** Milliseconds in which images of the pod's containers were made ready. */
  pulledMs = 0;
  /** It was told how long the pod took to start. */
  startTold = false;
  #failures: Map<string, StartFailure> | undefined;
  #messages: Map<string, string> | undefined;
  #backoff: RestartBackoff | undefined;
  #volumes: PodVolumes | undefined;

  constructor(node: NodeContext, pod: Pod, api: Pod | undefined) {
    const { uid = '', namespace = '', name = '' } = pod.metadata ?? {};
    this.node = node;
    this.pod = pod;
    this.api = api;
    this.uid = uid;
    this.namespace = namespace;
    this.name = name;
    this.startedAt = node.clock.now();
  }

  get apiUid(): string | undefined {
    return this.static ? this.api?.metadata?.uid : this.uid;
  }
  get key(): string {
    return `${this.namespace}/${this.name}`;
  }

  /** Why containers could not be started, by name. */
  get failures(): ReadonlyMap<string, StartFailure> {
    return this.#failures ?? empty;
  }
  fail(container: string, failure: StartFailure): void {
    (this.#failures ??= new Map()).set(container, failure);
  }
  clearFailure(container: string): void {
    this.#failures?.delete(container);
  }

  /** Termination messages by container id. */
  get messages(): ReadonlyMap<string, string> {
    return this.#messages ?? empty;
  }
  setMessage(id: string, message: string): void {
    (this.#messages ??= new Map()).set(id, message);
  }
  dropMessages(keep: (id: string) => boolean): void {
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
