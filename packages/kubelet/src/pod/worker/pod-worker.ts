import type { Pod } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/primitives/backoff';
import type { Timer } from '@oarlock/primitives/clock';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { NodeContext } from '../node-context.ts';
import { comparePods } from './internal/pod-changes.ts';
import { PodSyncer, type PodSyncerOptions, type PodWorkerStage } from './internal/pod-syncer.ts';
import { resizableContainers, withReportedResources, withAllocatedResources } from '../../pod-util/allocated-resources.ts';
import { PodResize } from '../pod-resize.ts';
import type { ResizeRejection } from '../../pod-util/resize-status.ts';
import { formatPod, isDeleted, isTerminalPhase } from '../../pod-util/pods.ts';
import type { PodUpdateType } from '../../metrics/pod-metrics.ts';
import { PodRecord } from '../pod-record.ts';
import type { PodLifecycleListener } from '../../runtime/pleg.ts';
import { updateApiPod } from '../../status/status-manager.ts';
import { SyncPass } from '../sync-pass.ts';

export interface PodWorkerOptions extends Pick<PodSyncerOptions, 'found' | 'orphan' | 'admit' | 'released'> {
  readonly node: NodeContext;
  readonly pod: Pod;
  /** True for a static pod. */
  readonly static?: boolean;
  /** Allocates the new resources of an admitted pod, or returns why the resize is rejected. */
  resize(pod: Pod): ResizeRejection | undefined;
  /** Called when the worker has no work left and the pod's API object is gone. */
  finished(): void;
}

/** The maximum number of trace span contexts that one pass links. */
const maxSpanContexts = 32;

/**
 * The worker of one pod, which brings the pod to its desired state in passes that do not overlap. Changes of the pod, runtime events, probe
 * results, timers and changes of referenced objects wake the worker; a wake-up during a pass leads to another pass.
 */
export class PodWorker implements PodLifecycleListener {
  readonly record: PodRecord;
  readonly #options: PodWorkerOptions;
  readonly #node: NodeContext;
  readonly #syncer: PodSyncer;
  #queued = false;
  #running = false;
  #syncAgain = false;
  #spanContexts: SpanContext[] = [];
  /** The trace span context of the first request since the last pass. */
  #requestSpanContext: SpanContext | undefined;
  /**
   * The trace span context of the last pass that a request caused, or of the request until that pass has ended. It is the parent of probes, and of passes
   * without another cause: they wait for what that pass started. Passes that probes cause do not replace it, so that the depth of the tree is bounded.
   */
  #lastSpanContext: SpanContext | undefined;
  #enqueuedAt = 0;
  /** What the next pass handles. */
  #updateType: PodUpdateType = 'create';
  #abort: AbortController | undefined;
  #retry: Timer | undefined;
  #failures: Backoff | undefined;
  /** The callbacks to call once, after the next pass. */
  #watchers: (() => void)[] | undefined;

  constructor(options: PodWorkerOptions) {
    this.#options = options;
    this.#node = options.node;
    const { node, pod, found, orphan = false, admit, resize, released } = options;
    const reported = withReportedResources(pod);
    this.record = new PodRecord(node, reported, orphan || options.static ? undefined : pod);
    this.record.static = options.static === true;
    if (reported !== pod) {
      this.record.resize = new PodResize(this.record, resize);
      this.record.resize.setDesiredPod(pod);
    }
    this.#syncer = new PodSyncer({
      record: this.record,
      listener: this,
      found,
      orphan,
      admit,
      released,
      wake: (spanContext) => this.wake(spanContext),
      probed: (spanContext) => this.#wakeBelow(spanContext),
      spanContext: () => this.#lastSpanContext,
    });
  }

  get state() {
    return this.record.state;
  }
  get stage(): PodWorkerStage {
    return this.#syncer.stage;
  }
  /** False once the pod's API object, or the manifest of a static pod, is gone. */
  get isDesired(): boolean {
    return !this.#syncer.deletedFromApi;
  }
  get isSyncing(): boolean {
    return this.#running;
  }

  /** Handles an update of the pod's API object or manifest. */
  update(pod: Pod, spanContext: SpanContext | undefined): void {
    const { record } = this;
    const { spec, metadata, readinessGates: gates } = comparePods(record.pod, pod);
    if (this.#updateType === 'sync') this.#updateType = 'update';
    const graceBefore = record.pod.metadata?.deletionGracePeriodSeconds;
    const wasDeleted = isDeleted(record.pod);
    this.#setDesiredPod(pod, spec);
    updateApiPod(record, pod);
    if (!isDeleted(pod)) this.#node.statusManager.resendIfReadinessDiffers(record, spanContext);
    if (metadata) this.#syncer.volumeContentChanged();
    if (isDeleted(pod) && (!wasDeleted || graceBefore !== pod.metadata?.deletionGracePeriodSeconds)) this.#terminate(spanContext, true);
    else if (this.stage === 'syncing' && isTerminalPhase(pod.status?.phase)) this.#terminate(spanContext, true);
    else if (spec || metadata || gates) this.wake(spanContext);
  }

  /** Sets the mirror pod of a static pod; undefined if it does not exist. */
  mirrorPodUpdated(mirror: Pod | undefined): void {
    const { record } = this;
    record.apiPod = mirror;
    if (mirror && record.status) this.#node.statusManager.setPodStatus(record, { wanted: record.status, spanContext: undefined });
  }

  /** Handles the deletion of the pod's API object, or of a static pod's manifest. */
  podDeleted(spanContext: SpanContext | undefined): void {
    if (this.#syncer.deletedFromApi) return;
    this.#syncer.deletedFromApi = true;
    this.#updateType = 'kill';
    this.record.apiPod = undefined;
    if (this.stage === 'finished') this.#options.finished();
    else this.#terminate(spanContext, false);
  }

  invalidate(_sandboxId: string | undefined, containerId: string | undefined): void {
    this.#syncer.invalidateRuntimeStatus(containerId);
    this.wake(undefined);
  }

  /** Wakes the worker. `spanContext`: the request that changed the pod, or an object that it refers to. */
  wake(spanContext: SpanContext | undefined): void {
    this.#requestSpanContext ??= spanContext;
    this.#wakeBelow(spanContext);
  }

  #wakeBelow(spanContext: SpanContext | undefined): void {
    if (spanContext && this.#spanContexts.length < maxSpanContexts) this.#spanContexts.push(spanContext);
    if (this.#running) {
      this.#syncAgain = true;
      return;
    }
    if (this.#queued || this.stage === 'finished' || this.#node.signal.aborted) return;
    this.#queued = true;
    this.#enqueuedAt = this.#node.clock.now();
    this.#node.turnQueue.push(() => {
      void this.#sync();
    });
  }

  /** Resolves when the container no longer runs, according to the last known runtime status. Resolves early if the signal aborts. */
  async waitForContainerExit(containerId: string, signal: AbortSignal): Promise<void> {
    while (this.state.container(containerId)?.state === 'RUNNING' && !signal.aborted) await this.#nextSync(signal);
  }

  /** Resolves after the next pass, or when the signal aborts. */
  #nextSync(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const notify = () => {
        signal.removeEventListener('abort', notify);
        resolve();
      };
      signal.addEventListener('abort', notify, { once: true });
      (this.#watchers ??= []).push(notify);
    });
  }

  /** Terminates the pod on behalf of the node. The pod fails, so that its controller may replace the pod on another node. */
  evict(message: string, graceSeconds: number, reason = 'Evicted'): void {
    if (this.stage !== 'syncing') return;
    if (reason === 'Evicted' || reason === 'Preempting') this.record.event('Warning', reason, message);
    this.#updateType = 'kill';
    this.#syncer.terminateWith({ reason, message, graceSeconds, isDisruption: true });
    this.#terminate(undefined, false, true);
  }
  /** True if the node terminated the pod. */
  get evicted(): boolean {
    return this.#syncer.isEvicted;
  }

  /** Resolves when all containers of the pod are stopped, or the signal aborts. */
  async waitForPodTermination(signal: AbortSignal): Promise<void> {
    while ((this.stage === 'syncing' || this.stage === 'terminating') && !signal.aborted) await this.#nextSync(signal);
  }

  /** Stops the worker; the pod keeps running. */
  close(): void {
    this.#abort?.abort();
    this.#retry?.cancel();
    this.#syncer.close();
    this.#notifyWatchers();
  }

  /** Sets the desired state of the pod. An admitted pod keeps its allocated resources until a pass allocates the new ones (KEP-1287). */
  #setDesiredPod(pod: Pod, changed: boolean): void {
    const { record } = this;
    if (changed) this.#countRequestedResizes(record.resize?.desiredPod ?? record.pod, pod);
    const allocated = this.#syncer.admitted && changed ? withAllocatedResources(pod, record.pod) : pod;
    if (allocated !== pod) record.resize ??= new PodResize(record, this.#options.resize);
    if (record.resize) record.resize.setDesiredPod(pod);
    else record.pod = pod;
  }

  #countRequestedResizes(before: Pod, now: Pod): void {
    const known = new Map([...resizableContainers(before)].map(({ name, resources }) => [name, { resources }]));
    for (const { name, resources } of resizableContainers(now)) {
      const former = known.get(name);
      if (former !== undefined) this.#node.metrics.resizes.requested(former.resources, resources);
    }
  }

  /** Moves the pod to the stage `terminating`, and aborts a pass of an earlier stage. */
  #terminate(spanContext: SpanContext | undefined, interruptTermination: boolean, evicted = false): void {
    const interrupted = evicted || this.stage === 'syncing' || (this.stage === 'terminating' && interruptTermination);
    this.#syncer.terminate();
    if (interrupted) this.#abort?.abort();
    this.#retry?.cancel();
    this.wake(spanContext);
  }

  async #sync(): Promise<void> {
    this.#queued = false;
    if (this.#node.signal.aborted) return;
    this.#running = true;
    this.#syncAgain = false;
    this.#retry?.cancel();
    this.#retry = undefined;
    const abort = new AbortController();
    this.#abort = abort;
    const updateType = this.#updateType;
    this.#updateType = 'sync';
    if (updateType === 'create') this.#node.metrics.pods.workerStarted(this.#secondsSinceEnqueued());
    const request = this.#requestSpanContext;
    this.#requestSpanContext = undefined;
    if (request !== undefined) this.#lastSpanContext = request;
    const spanContexts = this.#spanContexts.length > 0 ? this.#spanContexts : this.#lastSpanContext ? [this.#lastSpanContext] : [];
    this.#spanContexts = [];
    const pass = new SyncPass(this.record, { signal: abort.signal, spanContexts, enqueuedAt: this.#enqueuedAt });
    try {
      await this.#syncer.sync(pass);
      this.#failures = undefined;
    } catch (error) {
      if (!abort.signal.aborted) this.#failed(pass, error);
    } finally {
      pass.end();
      this.#node.metrics.pods.synced(updateType, this.#secondsSinceEnqueued());
      if (request !== undefined) this.#lastSpanContext = pass.startedSpanContext ?? request;
      this.#running = false;
      if (this.#abort === abort) this.#abort = undefined;
      this.#notifyWatchers();
    }
    if (this.stage === 'finished') {
      if (this.#syncer.deletedFromApi) this.#options.finished();
    } else if (this.#syncAgain || pass.retryMs === 0) this.wake(undefined);
    else if (pass.retryMs !== undefined && !this.#node.signal.aborted)
      this.#retry = this.#node.clock.after(pass.retryMs, () => this.wake(undefined));
  }

  /** The clock may have been set back. */
  #secondsSinceEnqueued(): number {
    return Math.max(0, this.#node.clock.now() - this.#enqueuedAt) / 1000;
  }

  #failed(pass: SyncPass, error: unknown): void {
    pass.fail(error);
    this.#failures ??= new Backoff({ firstMs: 1000, longestMs: 60_000, jitter: 0.2, random: this.#node.random });
    pass.retryIn(this.#failures.next());
    this.#node.log.warn({ err: error, pod: formatPod(this.record.pod), stage: this.stage }, 'syncing a pod failed; retrying');
  }

  #notifyWatchers(): void {
    const watchers = this.#watchers ?? [];
    this.#watchers = undefined;
    for (const notify of watchers) notify();
  }
}
