import { setMaxListeners } from 'node:events';
import { hostname } from 'node:os';
import { eventLoop } from '@oarlock/primitives/concurrency/event-loop';
import { objectKey } from '@oarlock/api/object';
import { nodes, pods } from '@oarlock/api/resources';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Client, EventRecorder, EventRecorderFactory, Informer, Informers } from '@oarlock/spi/client';
import type { Handle, SchedulingPlugin } from '@oarlock/spi/scheduling';
import type { Tracer } from '@opentelemetry/api';
import { SchedulerCache } from './cache/scheduler-cache.ts';
import type { SchedulingProfile } from './config/profiles.ts';
import { PodStatusWriter } from './cycle/pod-status-writer.ts';
import { PodScheduler } from './cycle/schedule-one.ts';
import type { ScheduledPod } from './cycle/scheduling-attempt.ts';
import { SchedulingFailureHandler } from './cycle/scheduling-failure-handler.ts';
import { addEventHandlers, addNodeEventHandler, findServedEventResources } from './event-handlers.ts';
import { explainPods } from './explain/explain-pods.ts';
import type { Explainer, Explanation, NodeChanges } from './explain/explainer.ts';
import type { Extender } from './extender/extender.ts';
import { noNodesAvailable } from './framework/feasible-nodes.ts';
import { PodsInPreBind } from './framework/pods-in-pre-bind.ts';
import { WaitingPods } from './framework/waiting-pods.ts';
import type { SchedulerMetrics } from './metrics/scheduler-metrics.ts';
import { isSchedulingEquivalent } from './pod-info/pod-changes.ts';
import { priorityOf } from './pod-info/pod-info.ts';
import { Nominator } from './queue/nominator.ts';
import { SchedulingQueue } from './queue/scheduling-queue.ts';

export interface SchedulerOptions {
  readonly client: Client;
  readonly informers: Informers;
  /** True if nodes and pods are listed again before the first cycle, so that the caches contain the bindings of the previous leader. */
  readonly refreshCachesFirst?: boolean;
  readonly events: EventRecorderFactory;
  readonly profiles: readonly SchedulingProfile[];
  readonly extenders?: readonly Extender[];
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer: Tracer;
  /** A random number generator: returns a number in [0, 1). */
  readonly random: () => number;
  readonly metrics: SchedulerMetrics;
  readonly parallelBinds: number;
  readonly initialBackoffMs: number;
  readonly maxBackoffMs: number;
}

const hasEnded = ({ status }: Pod): boolean => status?.phase === 'Succeeded' || status?.phase === 'Failed';

/** Assigns a node to each pod that has none, one pod after the other; bindings are written concurrently. An instance runs once. */
export class Scheduler implements Explainer {
  readonly #options: SchedulerOptions;
  readonly #profiles: ReadonlyMap<string, SchedulingProfile>;
  readonly #recorders: ReadonlyMap<string, EventRecorder>;
  readonly #cache = new SchedulerCache();
  readonly #nominator = new Nominator();
  readonly #queue: SchedulingQueue;
  readonly #podScheduler: PodScheduler;
  readonly #waitingPods: WaitingPods;
  readonly #podsInPreBind = new PodsInPreBind();
  readonly #podStatusWriter: PodStatusWriter;
  readonly #pods: Informer<Pod>;
  readonly #nodes: Informer<Node>;
  #running = false;

  constructor(options: SchedulerOptions) {
    const { profiles, clock, informers, events } = options;
    this.#options = options;
    this.#profiles = new Map(profiles.map((profile) => [profile.schedulerName, profile]));
    this.#recorders = new Map(profiles.map(({ schedulerName }) => [schedulerName, events.recorder(schedulerName, hostname())]));
    this.#pods = informers.forResource(pods);
    this.#nodes = informers.forResource(nodes);
    this.#waitingPods = new WaitingPods(clock);
    this.#podStatusWriter = new PodStatusWriter(options);
    this.#queue = this.#newQueue();
    this.#podScheduler = this.#newPodScheduler();
    const handle: Handle = {
      activate: (key) => this.#queue.activate(key),
      waitingPod: (key) => this.#waitingPods.get(key),
      podInPreBind: (key) => this.#podsInPreBind.get(key),
      requeueRejectedBy: (plugin) => this.#queue.requeueRejectedBy(plugin),
    };
    for (const plugin of this.#plugins()) plugin.setHandle?.(handle);
  }

  #newQueue(): SchedulingQueue {
    const { profiles, clock, initialBackoffMs, maxBackoffMs, metrics } = this.#options;
    const [first] = profiles;
    if (first === undefined) throw new Error('a scheduler needs a profile');
    return new SchedulingQueue({
      clock,
      less: first.framework.less,
      preEnqueueGate: (pod) => this.#profileOf(pod)?.framework.preEnqueue(pod)?.plugin,
      eventsToRegister: (pod, plugin) =>
        plugin === noNodesAvailable ? [{ kind: 'Node', actions: ['added'] }] : this.#profileOf(pod)?.framework.eventsToRegister.get(plugin),
      initialBackoffMs,
      maxBackoffMs,
      onIncomingPod: (queue, event) => metrics.countIncomingPod(queue, event),
    });
  }

  #newPodScheduler(): PodScheduler {
    const shared = { cache: this.#cache, queue: this.#queue, nominator: this.#nominator };
    const failureHandler = new SchedulingFailureHandler({
      ...shared,
      podStatusWriter: this.#podStatusWriter,
      recorderOf: (schedulerName) => this.#recorders.get(schedulerName),
      getPod: (key) => this.#pods.get(key),
    });
    return new PodScheduler({
      ...this.#options,
      ...shared,
      extenders: this.#options.extenders ?? [],
      waitingPods: this.#waitingPods,
      podsInPreBind: this.#podsInPreBind,
      failureHandler,
      profileOf: (pod) => this.#profileOf(pod),
      onBound: (scheduled) => this.#onBound(scheduled),
      writeNominatedNode: ({ podInfo, node, spanContext }) => this.#podStatusWriter.writeNominatedNode(podInfo.pod, node, spanContext),
    });
  }

  get isRunning(): boolean {
    return this.#running;
  }
  get pendingPods() {
    return this.#queue.pendingPods;
  }
  podOf(key: string): Pod | undefined {
    return this.#pods.get(key);
  }
  explain(some: readonly Pod[], changes?: NodeChanges): readonly Explanation[] {
    const context = { cache: this.#cache, nominator: this.#nominator, profileOf: (pod: Pod) => this.#profileOf(pod) };
    return explainPods(some, context, changes);
  }

  /** Schedules pods until the signal aborts. Resolves when the bindings in progress have ended. */
  async run(signal: AbortSignal): Promise<void> {
    const stop = () => this.#queue.close();
    setMaxListeners(0, signal); // each cache that waits for its sync adds a listener
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop(); // an aborted signal emits no further event
    const removeHandlers: (() => void)[] = [];
    try {
      await this.#startCaches(signal, removeHandlers);
      this.#running = true;
      for (let podInfo = await this.#queue.pop(); podInfo !== undefined; podInfo = await this.#queue.pop()) {
        if (signal.aborted) break;
        while (eventLoop.shouldYield) await eventLoop.yield();
        await this.#podScheduler.scheduleOne(podInfo, signal);
        await this.#podScheduler.whenBindCapacity();
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.#running = false;
      signal.removeEventListener('abort', stop);
      this.#queue.close();
      for (const removeHandler of removeHandlers) removeHandler();
      await this.#podScheduler.whenIdle();
      await this.#podStatusWriter.whenIdle();
    }
  }

  /** Fills the caches of the scheduler and of the plugins. Adds functions that remove the event handlers to `removeHandlers`. */
  async #startCaches(signal: AbortSignal, removeHandlers: (() => void)[]): Promise<void> {
    const { client, clock, refreshCachesFirst } = this.#options;
    const plugins = this.#plugins();
    if (refreshCachesFirst === true) await Promise.all([this.#nodes.refresh(signal), this.#pods.refresh(signal)]);
    const resources = await findServedEventResources(
      plugins.flatMap(({ eventsToRegister = [] }) => eventsToRegister),
      { client, clock, signal },
    );
    // the plugins' handlers must run before the queue's: queueing hints read the plugins' caches
    await Promise.all(plugins.map((plugin) => plugin.whenSynced?.(signal)));
    removeHandlers.push(
      ...addEventHandlers(resources, this.#options.informers, this.#queue),
      addNodeEventHandler(this.#nodes, this.#cache, this.#queue),
      this.#addPodEventHandler(),
    );
    await Promise.all([this.#nodes.whenSynced(signal), this.#pods.whenSynced(signal)]);
  }

  #addPodEventHandler(): () => void {
    return this.#pods.addEventHandler({
      onAdd: (pod, spanContext) => this.#onPodChanged(pod, undefined, spanContext),
      onUpdate: (pod, old, spanContext) => this.#onPodChanged(pod, old, spanContext),
      onDelete: (pod, spanContext) => this.#onPodDeleted(pod, spanContext),
    });
  }

  #plugins(): readonly SchedulingPlugin[] {
    return [...new Set([...this.#profiles.values()].flatMap(({ framework }) => framework.plugins))];
  }
  #profileOf({ spec }: Pod): SchedulingProfile | undefined {
    return this.#profiles.get(spec?.schedulerName || 'default-scheduler');
  }

  #onPodChanged(pod: Pod, old: Pod | undefined, spanContext: SpanContext | undefined): void {
    if (hasEnded(pod)) this.#onPodDeleted(pod, spanContext);
    else if (pod.spec?.nodeName) this.#onAssignedPodChanged(pod, old, spanContext);
    else if (this.#profileOf(pod) !== undefined) this.#onUnscheduledPodChanged(pod, old, spanContext);
  }

  #onAssignedPodChanged(pod: Pod, old: Pod | undefined, spanContext: SpanContext | undefined): void {
    const before = old?.spec?.nodeName ? old : undefined;
    if (before !== undefined && isSchedulingEquivalent(before, pod)) return;
    const key = objectKey(pod);
    this.#cache.setPod(pod);
    this.#nominator.deleteNominatedPod(key);
    this.#queue.remove(key);
    this.#queue.moveAllToActiveOrBackoffQueue(
      { kind: 'AssignedPod', action: before === undefined ? 'added' : 'updated', oldObject: before, newObject: pod },
      spanContext,
    );
  }

  #onUnscheduledPodChanged(pod: Pod, old: Pod | undefined, spanContext: SpanContext | undefined): void {
    if (pod.metadata?.deletionTimestamp !== undefined) {
      this.#onPodDeleted(pod, spanContext);
      return;
    }
    if (this.#cache.isAssumedPod(objectKey(pod))) return;
    const nominationCleared = this.#nominator.updateNominatedPod(pod, old);
    this.#queue.update(pod, spanContext);
    if (nominationCleared && old !== undefined) this.#onNominationEnded(old, spanContext);
    if (old === undefined)
      this.#queue.moveAllToActiveOrBackoffQueue(
        { kind: 'UnscheduledPod', action: 'added', oldObject: undefined, newObject: pod },
        spanContext,
      );
  }

  #onPodDeleted(pod: Pod, spanContext: SpanContext | undefined): void {
    const key = objectKey(pod);
    this.#waitingPods.get(key)?.reject('', 'the pod is deleted');
    this.#queue.remove(key);
    const wasNominated = this.#nominator.deleteNominatedPod(key);
    if (this.#cache.removePod(key))
      this.#queue.moveAllToActiveOrBackoffQueue(
        { kind: 'AssignedPod', action: 'deleted', oldObject: pod, newObject: undefined },
        spanContext,
      );
    else if (wasNominated) this.#onNominationEnded(pod, spanContext);
  }

  /** Requeues the other pods for which the nominated pod counted as assigned to its node: those of at most its priority. */
  #onNominationEnded(pod: Pod, spanContext: SpanContext | undefined): void {
    const key = objectKey(pod);
    const priority = pod.spec?.priority ?? 0;
    this.#queue.moveAllToActiveOrBackoffQueue(
      { kind: 'AssignedPod', action: 'deleted', oldObject: pod, newObject: undefined },
      spanContext,
      (other) => other.key !== key && priorityOf(other) <= priority,
    );
  }

  #onBound({ podInfo, node, profile }: ScheduledPod): void {
    this.#queue.done(podInfo);
    const { namespace, name } = podInfo.pod.metadata ?? {};
    this.#recorders
      .get(profile.schedulerName)
      ?.event(podInfo.pod, 'Normal', 'Scheduled', `Successfully assigned ${namespace}/${name} to ${node}`, undefined, { name: 'Binding' });
  }
}
