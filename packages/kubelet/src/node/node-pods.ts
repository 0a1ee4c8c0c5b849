import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { Cause } from '@oarlock/kernel/tracing';
import { names } from '../labels.ts';
import type { NodeContext, PodRuntime } from '../node-context.ts';
import type { ResizeRefusal } from '../pod-resize.ts';
import { isTerminalPhase, podUid } from '../pods.ts';
import { PodWorker } from '../pod-worker.ts';
import type { Found } from '../runtime-hub.ts';
import { NodeAdmission, type Refusal } from './admission.ts';
import { isCritical } from './eviction-order.ts';
import { remaining, toPreempt } from './preemption.ts';

export interface FoundPod {
  readonly runtime: PodRuntime;
  readonly found: Found;
}

/** The pods of one node: a worker for each, from the moment its pod is bound until everything of it is gone. */
export class NodePods {
  readonly #node: NodeContext;
  readonly #admission: NodeAdmission;
  readonly #workers = new Map<string, PodWorker>();
  /** By `namespace/name`: for requests that name a pod. The last one that came, when one replaces another. */
  readonly #byKey = new Map<string, PodWorker>();
  /** Pods that wait for room, to be resized or because they are critical, in the order in which they came. */
  readonly #deferred = new Set<PodWorker>();
  #gone: ((key: string) => void) | undefined;

  constructor(node: NodeContext, object: () => Node | undefined) {
    this.#node = node;
    this.#admission = new NodeAdmission(
      () => node.allocatable,
      object,
      node.unsafeSysctls,
      () => node.pressure,
      () => node.goingDown,
    );
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

  /** `found`: what the runtime had of it when the kubelet began. */
  added(pod: Pod, cause: Cause | undefined, found?: FoundPod, isStatic = false): void {
    const uid = podUid(pod);
    const known = this.#workers.get(uid);
    if (known) {
      known.update(pod, cause);
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
      finished: () => this.#forget(uid),
    });
    if (!isTerminalPhase(pod.status?.phase) && (found || pod.status?.startTime !== undefined)) this.#admission.adopt(worker.record.pod);
    this.#keep(worker);
    worker.wake(cause);
  }

  /** A pod that the API did not ask for. */
  addedStatic(pod: Pod, found: FoundPod | undefined): void {
    this.added(pod, undefined, found, true);
  }
  /** What the API shows of a static pod. */
  mirrored(uid: string, mirror: Pod | undefined): void {
    this.#workers.get(uid)?.mirrored(mirror);
  }
  /** Whether a pod of that `namespace/name` is still here. */
  taken(key: string): boolean {
    return this.#byKey.has(key);
  }
  /** Told when the last pod of a name is gone. */
  onGone(listener: (key: string) => void): void {
    this.#gone = listener;
  }

  updated(pod: Pod, cause: Cause | undefined): void {
    this.added(pod, cause);
  }

  deleted(pod: Pod, cause: Cause | undefined): void {
    this.#workers.get(podUid(pod))?.removed(cause);
  }

  /** Something that the runtime has and the API does not: it is stopped and removed. */
  orphan(uid: string, found: FoundPod): void {
    const labels = found.found.sandboxes[0]?.labels ?? found.found.containers[0]?.labels ?? {};
    const pod: Pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: labels[names.podName] ?? '', namespace: labels[names.podNamespace] ?? '', uid },
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
      finished: () => this.#forget(uid),
    });
    this.#keep(worker);
    this.#node.log.info({ pod: `${pod.metadata?.namespace}/${pod.metadata?.name}`, uid }, 'stopping a pod that is not in the API any more');
    worker.wake(undefined);
  }

  /** Something that all pods wait for has come. */
  wakeAll(): void {
    for (const worker of this.#workers.values()) if (worker.stage === 'syncing') worker.wake(undefined);
  }

  close(): void {
    for (const worker of this.#workers.values()) worker.close();
  }

  #admit(worker: PodWorker, pod: Pod): Refusal | 'later' | undefined {
    const refusal = this.#admission.admit(pod) ?? this.#node.devices?.take(pod);
    if (refusal) this.#admission.release(podUid(pod));
    if (!refusal?.reason.startsWith('OutOf') || !isCritical(pod) || !this.#preempt(pod)) return refusal;
    this.#deferred.add(worker);
    return 'later';
  }

  /** Has pods go that matter less than a critical one for which there is no room. Returns whether that will be enough. */
  #preempt(pod: Pod): boolean {
    const byPod = new Map<Pod, PodWorker>();
    const going: Pod[] = [];
    for (const worker of this.#workers.values()) {
      const { record, stage } = worker;
      if (record.uid === podUid(pod) || !this.#admission.has(record.uid)) continue;
      if (stage === 'syncing') byPod.set(record.pod, worker);
      else going.push(record.pod);
    }
    // what is on its way out gives what it has
    const chosen = toPreempt(pod, byPod.keys(), remaining(this.#admission.lackFor(pod), going));
    for (const one of chosen ?? []) byPod.get(one)?.evict('Preempted in order to admit critical pod', 1, 'Preempting');
    return chosen !== undefined;
  }

  #resize(worker: PodWorker, pod: Pod): ResizeRefusal | undefined {
    const refusal = this.#admission.resize(pod);
    if (refusal?.reason === 'Deferred') this.#deferred.add(worker);
    else {
      this.#deferred.delete(worker);
      // it may have become smaller
      if (!refusal) this.#node.turns.push(() => this.#resizeDeferred());
    }
    return refusal;
  }

  #release(uid: string): void {
    this.#admission.release(uid);
    this.#node.devices?.release(uid);
    this.#resizeDeferred();
  }

  /** Asks again for those that wait: the most important first, then those that wait longest. */
  #resizeDeferred(): void {
    if (this.#deferred.size === 0) return;
    const waiting = [...this.#deferred].sort((a, b) => (b.record.pod.spec?.priority ?? 0) - (a.record.pod.spec?.priority ?? 0));
    this.#deferred.clear();
    for (const worker of waiting) worker.wake(undefined);
  }

  #keep(worker: PodWorker): void {
    this.#workers.set(worker.record.uid, worker);
    this.#byKey.set(worker.record.key, worker);
  }

  #forget(uid: string): void {
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
