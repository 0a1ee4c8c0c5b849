import { eventLoop } from '@oarlock/kernel/event-loop';
import { objectKey } from '@oarlock/api/object';
import { nodes, pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { causeOf, failSpan, startSpan, type Cause } from '@oarlock/kernel/tracing';
import type { Client, EventRecorder, Informer, Informers } from '@oarlock/spi/client';
import type { NodeInfo, Outcome, PodInfo } from '@oarlock/spi/scheduling';
import type { Tracer } from '@opentelemetry/api';
import { podInfo } from './amounts.ts';
import { bind, Cycle, reserve, score, unreserve, type Framework } from './framework.ts';
import { NodeCache } from './node-cache.ts';
import { Nominations, priorityOf } from './nominations.ts';
import { countReasons, NodeSearch, unschedulableMessage, type SearchResult } from './node-search.ts';
import { SchedulingQueue, type Waiting } from './scheduling-queue.ts';
import type { SchedulerMetrics } from './scheduler-metrics.ts';

export interface SchedulerOptions {
  readonly client: Client;
  readonly informers: Informers;
  readonly recorder: EventRecorder;
  readonly framework: Framework;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer: Tracer;
  readonly random: () => number;
  readonly metrics: SchedulerMetrics;
  readonly schedulerName: string;
  readonly percentageOfNodesToScore?: number;
  readonly parallelBinds: number;
  readonly initialBackoffMs: number;
  readonly maxBackoffMs: number;
}

const shownScores = 5;

/** Stands for the plugin that refused where there was no node to be refused by. */
const noNodes = 'no nodes';

/** Finds a node for every pod that has none, one after the other; the bindings are written meanwhile. */
export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #cache = new NodeCache();
  readonly #nominations = new Nominations();
  readonly #queue: SchedulingQueue;
  readonly #search: NodeSearch;
  readonly #pods: Informer<Pod>;
  readonly #nodes: Informer<Node>;
  readonly #binding = new Set<Promise<void>>();
  #running = false;

  constructor(options: SchedulerOptions) {
    const { framework, clock, informers } = options;
    this.#options = options;
    this.#search = new NodeSearch(framework, options.percentageOfNodesToScore);
    this.#queue = new SchedulingQueue({
      clock,
      less: framework.less,
      preEnqueue: (pod) => framework.preEnqueue(pod),
      requeueOn: new Map([...framework.requeueOn, [noNodes, [{ kind: 'Node', on: ['added'] }]]]),
      initialBackoffMs: options.initialBackoffMs,
      maxBackoffMs: options.maxBackoffMs,
    });
    this.#pods = informers.of(pods);
    this.#nodes = informers.of(nodes);
  }

  get running(): boolean {
    return this.#running;
  }
  get depth() {
    return this.#queue.depth;
  }

  /** Until the signal aborts. Bindings under way have ended when it resolves. */
  async run(signal: AbortSignal): Promise<void> {
    const off = [
      this.#nodes.on({
        added: (node, cause) => {
          this.#cache.setNode(node);
          this.#queue.moved('Node', 'added', undefined, node, cause);
        },
        updated: (node, old, cause) => {
          this.#cache.setNode(node);
          if (node !== old) this.#queue.moved('Node', 'updated', old, node, cause);
        },
        deleted: (node, cause) => {
          this.#cache.removeNode(node.metadata?.name ?? '');
          this.#queue.moved('Node', 'deleted', node, undefined, cause);
        },
      }),
      this.#pods.on({
        added: (pod, cause) => this.#podChanged(pod, undefined, cause),
        updated: (pod, old, cause) => this.#podChanged(pod, old, cause),
        deleted: (pod, cause) => this.#podGone(pod, cause),
      }),
    ];
    const stop = () => this.#queue.close();
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop(); // the event has been and gone
    try {
      await Promise.all([this.#nodes.whenSynced(signal), this.#pods.whenSynced(signal)]);
      await Promise.all(this.#options.framework.plugins.map((plugin) => plugin.ready?.(signal)));
      this.#running = true;
      for (let waiting = await this.#queue.next(); waiting !== undefined; waiting = await this.#queue.next()) {
        if (signal.aborted) break;
        while (eventLoop.held) await eventLoop.turn();
        await this.#schedule(waiting, signal);
        while (this.#binding.size >= this.#options.parallelBinds) await Promise.race(this.#binding);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.#running = false;
      signal.removeEventListener('abort', stop);
      this.#queue.close();
      for (const unsubscribe of off) unsubscribe();
      await Promise.all(this.#binding);
    }
  }

  /** Every node with who refuses the pod there, or what it scores there. Changes nothing. */
  explain(pod: Pod): readonly {
    readonly node: string;
    readonly refusedBy?: string;
    readonly reasons?: readonly string[];
    readonly score?: number;
    readonly scores?: Readonly<Record<string, number>>;
  }[] {
    const info = podInfo(pod);
    const cycle = this.#cycle();
    const { fits, refusals } = this.#search.run(cycle, info, true);
    const parts = new Map<string, Float64Array>();
    const totals = fits.length === 0 ? new Float64Array() : score(this.#options.framework, cycle, info, fits, parts);
    return [
      ...fits.map(({ name }, index) => ({
        node: name,
        score: totals[index] ?? 0,
        scores: Object.fromEntries([...parts].map(([plugin, values]) => [plugin, values[index] ?? 0])),
      })),
      ...[...refusals].map(([node, { plugin, outcome }]) => ({
        node,
        refusedBy: plugin,
        reasons: 'reasons' in outcome ? outcome.reasons : [],
      })),
    ];
  }

  #cycle(): Cycle {
    return new Cycle(this.#cache, this.#options.framework, this.#nominations);
  }

  #podChanged(pod: Pod, old: Pod | undefined, cause: Cause | undefined): void {
    const key = objectKey(pod);
    const ended = pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';
    if (ended) {
      this.#podGone(pod, cause);
      return;
    }
    if (pod.spec?.nodeName) {
      const before = old?.spec?.nodeName ? old : undefined;
      // what counts here of a bound pod is its spec, its labels and where it is
      if (
        before !== undefined &&
        before.spec === pod.spec &&
        before.metadata?.labels === pod.metadata?.labels &&
        before.metadata?.deletionTimestamp === pod.metadata?.deletionTimestamp
      )
        return;
      this.#cache.setPod(pod);
      this.#nominations.delete(key);
      this.#queue.remove(key);
      this.#queue.moved('AssignedPod', before === undefined ? 'added' : 'updated', before, pod, cause);
      return;
    }
    if ((pod.spec?.schedulerName || 'default-scheduler') !== this.#options.schedulerName) return;
    if (pod.metadata?.deletionTimestamp !== undefined) {
      this.#queue.remove(key);
      this.#nominations.delete(key);
      return;
    }
    if (this.#cache.isAssumed(key)) return;
    this.#nominations.changed(pod, old);
    this.#queue.update(pod, cause);
  }

  #podGone(pod: Pod, cause: Cause | undefined): void {
    const key = objectKey(pod);
    this.#queue.remove(key);
    this.#nominations.delete(key);
    this.#cache.removePod(key);
    if (pod.spec?.nodeName) this.#queue.moved('AssignedPod', 'deleted', pod, undefined, cause);
  }

  async #schedule(waiting: Waiting, signal: AbortSignal): Promise<void> {
    const { framework, tracer, clock, metrics } = this.#options;
    const began = clock.monotonic();
    const span = startSpan(tracer, 'schedule', {
      cause: waiting.cause,
      attributes: { 'oarlock.key': waiting.key, 'oarlock.enqueued_at': waiting.enqueuedAt },
    });
    const cycle = this.#cycle();
    const own = causeOf(span);
    try {
      const found = this.#filter(cycle, waiting, own);
      if (found.fits.length === 0) {
        metrics.attempt('unschedulable', clock.monotonic() - began);
        const message = unschedulableMessage(this.#cache.nodes.length, found.refusals);
        const refusedBy = this.#cache.nodes.length === 0 ? [noNodes] : [...found.refusals.values()].map(({ plugin }) => plugin);
        const { more, nominated } = this.#cache.nodes.length === 0 ? nothingMore : await this.#postFilter(cycle, waiting, found);
        if (nominated !== undefined) this.#nominate(waiting, nominated, own);
        failSpan(span, message + more);
        this.#refused(waiting, new Set(refusedBy), 'Unschedulable', message + more, own, nominated);
        return;
      }
      const node = this.#choose(cycle, waiting, found.fits, own);
      this.#cache.assume(waiting, node.name);
      this.#nominations.delete(waiting.key);
      const reserved = framework.at('reserve').length === 0 ? undefined : await reserve(framework, cycle, waiting, node.name);
      if (reserved !== undefined && reserved.code !== 'success') {
        this.#cache.forget(waiting.key);
        this.#refused(waiting, new Set(reserved.plugin === undefined ? [] : [reserved.plugin]), 'Unschedulable', reasonsOf(reserved), own);
        return;
      }
      const binding: Promise<void> = this.#bind(cycle, waiting, node.name, own, signal, began).finally(() => this.#binding.delete(binding));
      this.#binding.add(binding);
    } catch (error) {
      failSpan(span, error);
      metrics.attempt('error', clock.monotonic() - began);
      this.#cache.forget(waiting.key);
      this.#options.log.error({ pod: waiting.key, err: error }, 'a scheduling cycle failed');
      this.#refused(waiting, new Set(), 'SchedulerError', (error as Error).message, own);
    } finally {
      span.end();
    }
  }

  #filter(cycle: Cycle, pod: PodInfo, cause: Cause | undefined): SearchResult {
    const span = startSpan(this.#options.tracer, 'filter', { cause });
    const found = this.#search.run(cycle, pod);
    if (span.isRecording()) {
      span.setAttributes({ 'oarlock.nodes': found.tried, 'oarlock.feasible': found.fits.length });
      if (found.refusals.size > 0) span.setAttribute('oarlock.refused', JSON.stringify(Object.fromEntries(countReasons(found.refusals))));
    }
    span.end();
    return found;
  }

  #choose(cycle: Cycle, pod: PodInfo, fits: readonly NodeInfo[], cause: Cause | undefined): NodeInfo {
    const [only] = fits;
    if (fits.length === 1 && only !== undefined) return only;
    const span = startSpan(this.#options.tracer, 'score', { cause });
    const totals = score(this.#options.framework, cycle, pod, fits);
    let best = 0;
    let equals = 1;
    for (let index = 1; index < totals.length; index++) {
      const value = totals[index] ?? 0;
      if (value > (totals[best] ?? 0)) {
        best = index;
        equals = 1;
      }
      // each of the equals gets the same chance
      else if (value === totals[best] && this.#options.random() * ++equals < 1) best = index;
    }
    if (span.isRecording()) {
      const top = largest(totals, shownScores);
      span.setAttribute(
        'oarlock.scores',
        JSON.stringify(Object.fromEntries(top.map((index) => [fits[index]?.name, Math.round(totals[index] ?? 0)]))),
      );
    }
    span.end();
    return fits[best] ?? (fits[0] as NodeInfo);
  }

  async #bind(cycle: Cycle, waiting: Waiting, node: string, cause: Cause | undefined, signal: AbortSignal, began: number): Promise<void> {
    const { framework, tracer, recorder, metrics, clock } = this.#options;
    const span = startSpan(tracer, 'bind', { cause, attributes: { 'oarlock.key': waiting.key, 'oarlock.node': node } });
    let outcome: Outcome & { readonly plugin?: string };
    try {
      outcome = await bind(framework, cycle, waiting, node, { cause: causeOf(span), signal });
    } catch (error) {
      outcome = { code: 'unschedulable', reasons: [(error as Error).message] };
    }
    if (outcome.code === 'success') {
      this.#queue.done(waiting);
      metrics.attempt('scheduled', clock.monotonic() - began);
      recorder.event(waiting.pod, 'Normal', 'Scheduled', `Successfully assigned ${waiting.key} to ${node}`);
      for (const plugin of framework.at('postBind')) plugin.postBind?.(cycle, waiting, node);
    } else {
      failSpan(span, reasonsOf(outcome));
      metrics.attempt('error', clock.monotonic() - began);
      unreserve(framework, cycle, waiting, node);
      this.#cache.forget(waiting.key);
      this.#queue.moved('AssignedPod', 'deleted', waiting.pod, undefined, cause);
      if (!signal.aborted) this.#refused(waiting, new Set(), 'SchedulerError', reasonsOf(outcome), cause);
    }
    span.end();
  }

  /** Until one plugin has made room. What those say that could not is told with the reasons of the filters. */
  async #postFilter(
    cycle: Cycle,
    waiting: Waiting,
    { refusals }: SearchResult,
  ): Promise<{ readonly more: string; readonly nominated?: string }> {
    let more = '';
    let nominated: string | undefined;
    for (const plugin of this.#options.framework.at('postFilter')) {
      const outcome = await plugin.postFilter?.(cycle, waiting, refusals);
      if (outcome === undefined) continue;
      nominated = outcome.nominated ?? nominated;
      if (outcome.code === 'success') return { more: '', ...(nominated !== undefined && { nominated }) };
      if ('reasons' in outcome) more += ` ${outcome.reasons.join(', ')}`;
    }
    return { more, ...(nominated !== undefined && { nominated }) };
  }

  /** Keeps the room that was made; who was to have it and matters less looks for another place. */
  #nominate(pod: PodInfo, node: string, cause: Cause | undefined): void {
    if (node === '') {
      this.#nominations.delete(pod.key);
      return;
    }
    if (!this.#queue.has(pod.key)) return; // gone meanwhile
    for (const other of this.#nominations.on(node)) {
      if (priorityOf(other) >= priorityOf(pod)) continue;
      this.#nominations.delete(other.key);
      this.#track(this.#patchStatus(other.pod, { nominatedNodeName: null }, cause));
    }
    this.#nominations.set(pod, node);
  }

  /** Back to the queue, and said on the pod. */
  #refused(waiting: Waiting, by: ReadonlySet<string>, reason: string, message: string, cause: Cause | undefined, nominated?: string): void {
    this.#queue.failed(waiting, by);
    this.#options.recorder.event(waiting.pod, 'Warning', 'FailedScheduling', message);
    this.#track(this.#condition(waiting.pod, reason, message, cause, nominated));
  }

  #track(work: Promise<void>): void {
    const task: Promise<void> = work.finally(() => this.#binding.delete(task));
    this.#binding.add(task);
  }

  async #condition(pod: Pod, reason: string, message: string, cause: Cause | undefined, nominated: string | undefined): Promise<void> {
    const old = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled');
    const same = old?.status === 'False' && old.reason === reason && old.message === message;
    const moved = nominated !== undefined && nominated !== (pod.status?.nominatedNodeName ?? '');
    if (same && !moved) return;
    const condition = {
      type: 'PodScheduled',
      status: 'False',
      reason,
      message,
      lastTransitionTime: old?.status === 'False' ? (old.lastTransitionTime ?? null) : formatTime(this.#options.clock.now()),
    };
    await this.#patchStatus(pod, { conditions: [condition], ...(moved && { nominatedNodeName: nominated || null }) }, cause);
  }

  async #patchStatus(pod: Pod, status: object, cause: Cause | undefined): Promise<void> {
    try {
      await this.#options.client
        .causedBy(cause)
        .patch(
          pods,
          { namespace: pod.metadata?.namespace ?? '', name: pod.metadata?.name ?? '' },
          'strategic',
          { metadata: { uid: pod.metadata?.uid }, status },
          { subresource: 'status' },
        );
    } catch (error) {
      if (!isStatus(error, 'NotFound', 'Conflict'))
        this.#options.log.warn({ pod: objectKey(pod), err: error }, 'the status of a pod could not be written');
    }
  }
}

const nothingMore: { readonly more: string; readonly nominated?: string } = { more: '' };

const reasonsOf = (outcome: Outcome): string => ('reasons' in outcome ? outcome.reasons.join(', ') : outcome.code);

/** The places of the `count` largest values, largest first. */
function largest(values: Float64Array, count: number): readonly number[] {
  const top: number[] = [];
  for (let index = 0; index < values.length; index++) {
    const value = values[index] ?? 0;
    if (top.length === count && value <= (values[top[count - 1] ?? 0] ?? 0)) continue;
    let at = top.length;
    while (at > 0 && (values[top[at - 1] ?? 0] ?? 0) < value) at--;
    top.splice(at, 0, index);
    if (top.length > count) top.pop();
  }
  return top;
}
