import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { SpanContext } from '@oarlock/kernel/tracing';
import { runtimeLabels } from '../../runtime/labels.ts';
import type { NodeContext, PodRuntime } from '../node-context.ts';
import type { AdmissionRejection } from '../../pod-util/admission-rejection.ts';
import type { ResizeRejection } from '../../pod-util/resize-status.ts';
import { isCriticalPod, isTerminalPhase, podUid } from '../../pod-util/pods.ts';
import { PodWorker } from './pod-worker.ts';
import type { RuntimePod } from '../../runtime/pleg.ts';
import { NodeAdmission } from '../../admission/node-admission.ts';
import { subtractRequests, selectPodsToPreempt } from '../../admission/preemption.ts';

export interface AdoptedPod {
  readonly runtime: PodRuntime;
  readonly found: RuntimePod;
}

/** Where a pod was found, and the span that caused its addition. */
export interface PodAddition {
  readonly spanContext: SpanContext | undefined;
  readonly found?: AdoptedPod | undefined;
  readonly isStatic?: boolean | undefined;
}

/** The pods of one node, with one worker per pod from the pod's binding until the pod's cleanup is complete. */
export class PodWorkers {
  readonly #node: NodeContext;
  readonly #admission: NodeAdmission;
  readonly #workers = new Map<string, PodWorker>();
  /** The workers, keyed by `namespace/name`, for requests that name a pod. While one pod replaces another of the same name, the newest worker. */
  readonly #byKey = new Map<string, PodWorker>();
  /** The workers that wait for free resources, because of a deferred resize or a critical pod, in order of arrival. */
  readonly #deferred = new Set<PodWorker>();
  #gone: ((key: string) => void) | undefined;

  constructor(node: NodeContext, object: () => Node | undefined) {
    this.#node = node;
    this.#admission = new NodeAdmission(() => node.allocatable, object, {
      unsafeSysctls: node.allowedUnsafeSysctls,
      pressure: () => node.pressure,
      shuttingDown: () => node.shuttingDown,
    });
  }

  get workers(): Iterable<PodWorker> {
    return this.#workers.values();
  }
  get size(): number {
    return this.#workers.size;
  }
  find(namespace: string, name: string): PodWorker | undefined {
    return this.#byKey.get(`${namespace}/${name}`);
  }
  get(uid: string): PodWorker | undefined {
    return this.#workers.get(uid);
  }

  /** Adds a pod that is bound to the node. `found` is the pod's state in the runtime when the kubelet started. */
  podAdded(pod: Pod, { spanContext, found, isStatic = false }: PodAddition): void {
    const uid = podUid(pod);
    const known = this.#workers.get(uid);
    if (known) {
      known.update(pod, spanContext);
      return;
    }
    const worker: PodWorker = new PodWorker({
      node: this.#node,
      pod,
      static: isStatic,
      found,
      admit: (one) => this.#admit(worker, one),
      resize: (one) => this.#resize(worker, one),
      released: () => this.#release(uid),
      finished: () => this.#removeWorker(uid),
    });
    if (!isTerminalPhase(pod.status?.phase) && (found || pod.status?.startTime !== undefined))
      this.#admission.addRunningPod(worker.record.pod);
    this.#workers.set(uid, worker);
    this.#byKey.set(worker.record.key, worker);
    worker.wake(spanContext);
  }

  /** Adds a static pod. `found` is the pod's state in the runtime when the kubelet started. */
  staticPodAdded(pod: Pod, found: AdoptedPod | undefined): void {
    this.podAdded(pod, { spanContext: undefined, found, isStatic: true });
  }
  /** Sets the mirror pod of a static pod; undefined if the mirror pod does not exist. */
  mirrorPodUpdated(uid: string, mirror: Pod | undefined): void {
    this.#workers.get(uid)?.mirrorPodUpdated(mirror);
  }
  /** Returns true if a pod with the key `namespace/name` has a worker. */
  isNameTaken(key: string): boolean {
    return this.#byKey.has(key);
  }
  /** Sets the listener, which is called when the last pod of a `namespace/name` has been removed. */
  onNameReleased(listener: (key: string) => void): void {
    this.#gone = listener;
  }

  podUpdated(pod: Pod, spanContext: SpanContext | undefined): void {
    this.podAdded(pod, { spanContext });
  }

  podDeleted(pod: Pod, spanContext: SpanContext | undefined): void {
    this.#workers.get(podUid(pod))?.podDeleted(spanContext);
  }

  /** Stops and removes a pod that exists in the runtime, but in no pod source. */
  terminateOrphan(uid: string, found: AdoptedPod): void {
    const labels = found.found.sandboxes[0]?.labels ?? found.found.containers[0]?.labels ?? {};
    const pod: Pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: labels[runtimeLabels.podName] ?? '', namespace: labels[runtimeLabels.podNamespace] ?? '', uid },
      spec: { containers: [] },
    };
    const worker = new PodWorker({
      node: this.#node,
      pod,
      found,
      orphan: true,
      admit: () => undefined,
      resize: () => undefined,
      released: () => undefined,
      finished: () => this.#removeWorker(uid),
    });
    this.#workers.set(uid, worker);
    // a newer pod with the same name keeps its name
    if (!this.isNameTaken(worker.record.key)) this.#byKey.set(worker.record.key, worker);
    this.#node.log.info(
      { pod: `${pod.metadata?.namespace}/${pod.metadata?.name}`, uid },
      'terminating a pod that no longer exists in the API',
    );
    worker.wake(undefined);
  }

  /** Wakes the workers of all pods in stage `syncing`. */
  wakeSyncingPods(): void {
    for (const worker of this.#workers.values()) if (worker.stage === 'syncing') worker.wake(undefined);
  }

  close(): void {
    for (const worker of this.#workers.values()) worker.close();
  }

  #admit(worker: PodWorker, pod: Pod): AdmissionRejection | 'later' | undefined {
    const rejection = this.#admission.admit(pod) ?? this.#node.deviceManager?.allocate(pod);
    if (rejection) this.#admission.release(podUid(pod));
    if (!rejection?.reason.startsWith('OutOf') || !isCriticalPod(pod) || !this.#preempt(pod)) return rejection;
    this.#deferred.add(worker);
    return 'later';
  }

  /** Preempts pods of lower priority to admit a critical pod. Returns true if the preemption frees enough resources. */
  #preempt(pod: Pod): boolean {
    const byPod = new Map<Pod, PodWorker>();
    const going: Pod[] = [];
    for (const worker of this.#workers.values()) {
      const { record, stage } = worker;
      if (record.uid === podUid(pod) || !this.#admission.has(record.uid)) continue;
      if (stage === 'syncing') byPod.set(record.pod, worker);
      else going.push(record.pod);
    }
    // pods that are already terminating will free their resources
    const chosen = selectPodsToPreempt(pod, byPod.keys(), subtractRequests(this.#admission.insufficientResources(pod), going));
    for (const one of chosen ?? []) byPod.get(one)?.evict('Preempted in order to admit critical pod', 1, 'Preempting');
    return chosen !== undefined;
  }

  #resize(worker: PodWorker, pod: Pod): ResizeRejection | undefined {
    const rejection = this.#admission.resize(pod);
    if (rejection?.reason === 'Deferred') this.#deferred.add(worker);
    else {
      this.#deferred.delete(worker);
      // a smaller pod may have freed resources
      if (!rejection) this.#node.turnQueue.push(() => this.#retryDeferred());
    }
    return rejection;
  }

  #release(uid: string): void {
    this.#admission.release(uid);
    this.#node.deviceManager?.release(uid);
    this.#retryDeferred();
  }

  /** Wakes the workers that wait for free resources, by priority and then by arrival. */
  #retryDeferred(): void {
    if (this.#deferred.size === 0) return;
    const waiting = [...this.#deferred].sort((a, b) => (b.record.pod.spec?.priority ?? 0) - (a.record.pod.spec?.priority ?? 0));
    this.#deferred.clear();
    for (const worker of waiting) worker.wake(undefined);
  }

  #removeWorker(uid: string): void {
    const worker = this.#workers.get(uid);
    if (!worker) return;
    this.#workers.delete(uid);
    this.#deferred.delete(worker);
    this.#release(uid);
    if (this.#byKey.get(worker.record.key) !== worker) return;
    this.#byKey.delete(worker.record.key);
    this.#gone?.(worker.record.key);
  }
}
