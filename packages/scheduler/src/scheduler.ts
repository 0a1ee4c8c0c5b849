import { setMaxListeners } from 'node:events';
import { hostname } from 'node:os';
import { eventLoop } from '@oarlock/kernel/event-loop';
import { objectKey } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { nodes, pods } from '@oarlock/api/resources';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { Cause } from '@oarlock/kernel/tracing';
import type { Client, EventRecorder, EventSource, Informer, Informers } from '@oarlock/spi/client';
import type { PodTeam, SchedulerHandle } from '@oarlock/spi/scheduling';
import type { Tracer } from '@opentelemetry/api';
import { BindingCycle } from './binding-cycle.ts';
import { sourcesOf, watchFor } from './event-sources.ts';
import type { Explainer, Explanation } from './explain.ts';
import { explainAll } from './explain-cycle.ts';
import type { Extender } from './extender.ts';
import { HeldPods } from './held-pods.ts';
import { NodeCache } from './node-cache.ts';
import { noNodes } from './node-search.ts';
import { Nominations, priorityOf } from './nominations.ts';
import { meansTheSame } from './pod-changes.ts';
import { PodReporter } from './pod-reporter.ts';
import type { SchedulingProfile } from './profiles.ts';
import { SchedulingCycle, type Failed, type Placed } from './scheduling-cycle.ts';
import { SchedulingQueue, type Waiting } from './scheduling-queue.ts';
import type { SchedulerMetrics } from './scheduler-metrics.ts';
import { TeamCycle } from './team-cycle.ts';

export interface SchedulerOptions {
  readonly client: Client;
  readonly informers: Informers;
  /** Others scheduled until now: nothing is bound before all that they bound is known. */
  readonly succeeds?: boolean;
  readonly events: EventSource;
  readonly profiles: readonly SchedulingProfile[];
  readonly extenders?: readonly Extender[];
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer: Tracer;
  readonly random: () => number;
  readonly metrics: SchedulerMetrics;
  readonly parallelBinds: number;
  readonly initialBackoffMs: number;
  readonly maxBackoffMs: number;
}

/** Finds a node for every pod that has none, one after the other; the bindings are written meanwhile. Runs once. */
export class Scheduler implements Explainer {
  readonly #options: SchedulerOptions;
  readonly #profiles: ReadonlyMap<string, SchedulingProfile>;
  readonly #recorders: ReadonlyMap<string, EventRecorder>;
  readonly #cache = new NodeCache();
  readonly #nominations = new Nominations();
  readonly #queue: SchedulingQueue;
  readonly #cycles: SchedulingCycle;
  readonly #binding: BindingCycle;
  readonly #held: HeldPods;
  readonly #reporter: PodReporter;
  readonly #pods: Informer<Pod>;
  readonly #nodes: Informer<Node>;
  #running = false;

  constructor(options: SchedulerOptions) {
    const { profiles, clock, informers, events, extenders = [] } = options;
    const [first] = profiles;
    if (first === undefined) throw new Error('a scheduler needs a profile');
    this.#options = options;
    this.#profiles = new Map(profiles.map((profile) => [profile.schedulerName, profile]));
    this.#recorders = new Map(profiles.map(({ schedulerName }) => [schedulerName, events.recorder(schedulerName, hostname())]));
    this.#held = new HeldPods(clock);
    this.#reporter = new PodReporter(options);
    this.#queue = new SchedulingQueue({
      clock,
      less: first.framework.less,
      gatedBy: (pod) => this.#profileOf(pod)?.framework.preEnqueue(pod)?.plugin,
      requeueOn: (pod, plugin) =>
        plugin === noNodes ? [{ kind: 'Node', on: ['added'] }] : this.#profileOf(pod)?.framework.requeueOn.get(plugin),
      initialBackoffMs: options.initialBackoffMs,
      maxBackoffMs: options.maxBackoffMs,
    });
    const parts = { ...options, extenders, cache: this.#cache, nominations: this.#nominations, held: this.#held };
    this.#cycles = new SchedulingCycle(parts);
    this.#binding = new BindingCycle({
      ...parts,
      announce: ({ waiting, node, cause }) => this.#reporter.nominated(waiting.pod, node, cause),
      bound: (placed) => this.#bound(placed),
      failed: (placed, failure, announced) => this.#unbound(placed, failure, announced),
    });
    this.#pods = informers.of(pods);
    this.#nodes = informers.of(nodes);
    const handle: SchedulerHandle = {
      activate: (key) => this.#queue.activate(key),
      held: (key) => this.#held.get(key),
      reconsider: (plugin) => this.#queue.reconsider(plugin),
    };
    for (const plugin of this.#plugins()) plugin.attach?.(handle);
  }

  get running(): boolean {
    return this.#running;
  }
  get depth() {
    return this.#queue.depth;
  }
  podOf(key: string): Pod | undefined {
    return this.#pods.get(key);
  }
  explain(some: readonly Pod[]): readonly Explanation[] {
    return explainAll(some, { cache: this.#cache, nominations: this.#nominations, profileOf: (pod) => this.#profileOf(pod) });
  }

  /** Until the signal aborts. Bindings under way have ended when it resolves. */
  async run(signal: AbortSignal): Promise<void> {
    const { client, clock } = this.#options;
    const plugins = this.#plugins();
    const stop = () => this.#queue.close();
    setMaxListeners(0, signal); // each cache that is waited for listens
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop(); // the event has been and gone
    let off: readonly (() => void)[] = [];
    try {
      if (this.#options.succeeds === true) await Promise.all([this.#nodes.refresh(signal), this.#pods.refresh(signal)]);
      const sources = await sourcesOf(
        plugins.flatMap(({ requeueOn = [] }) => requeueOn),
        { client, clock, signal },
      );
      // what plugins know of a change is up to date when the queue asks them about it: they listen first
      await Promise.all(plugins.map((plugin) => plugin.ready?.(signal)));
      off = this.#listen(sources);
      await Promise.all([this.#nodes.whenSynced(signal), this.#pods.whenSynced(signal)]);
      this.#running = true;
      for (let waiting = await this.#queue.next(); waiting !== undefined; waiting = await this.#queue.next()) {
        if (signal.aborted) break;
        while (eventLoop.held) await eventLoop.turn();
        await this.#schedule(waiting, signal);
        await this.#binding.room();
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.#running = false;
      signal.removeEventListener('abort', stop);
      this.#queue.close();
      for (const unsubscribe of off) unsubscribe();
      await this.#binding.settled();
      await this.#reporter.settled();
    }
  }

  #listen(sources: ReadonlyMap<string, Resource>): readonly (() => void)[] {
    return [
      ...watchFor(sources, this.#options.informers, this.#queue),
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
  }

  #plugins() {
    return [...new Set([...this.#profiles.values()].flatMap(({ framework }) => framework.plugins))];
  }
  #profileOf({ spec }: Pod): SchedulingProfile | undefined {
    return this.#profiles.get(spec?.schedulerName || 'default-scheduler');
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
      if (before !== undefined && meansTheSame(before, pod)) return;
      this.#cache.setPod(pod);
      this.#nominations.delete(key);
      this.#queue.remove(key);
      this.#queue.moved('AssignedPod', before === undefined ? 'added' : 'updated', before, pod, cause);
      return;
    }
    if (this.#profileOf(pod) === undefined) return;
    if (pod.metadata?.deletionTimestamp !== undefined) {
      this.#podGone(pod, cause);
      return;
    }
    if (this.#cache.isAssumed(key)) return;
    const released = this.#nominations.changed(pod, old);
    this.#queue.update(pod, cause);
    // room that was kept for it counts as taken to others
    if (released) this.#queue.moved('AssignedPod', 'deleted', old, undefined, cause);
    if (old === undefined) this.#queue.moved('UnscheduledPod', 'added', undefined, pod, cause);
  }

  #podGone(pod: Pod, cause: Cause | undefined): void {
    const key = objectKey(pod);
    this.#held.get(key)?.reject('', 'the pod is gone');
    this.#queue.remove(key);
    const kept = this.#nominations.delete(key);
    if (this.#cache.removePod(key) || kept) this.#queue.moved('AssignedPod', 'deleted', pod, undefined, cause);
  }

  async #schedule(waiting: Waiting, signal: AbortSignal): Promise<void> {
    const profile = this.#profileOf(waiting.pod);
    if (profile === undefined) {
      this.#queue.done(waiting);
      return;
    }
    const team = profile.framework.teamOf(waiting.pod);
    if (team !== undefined) {
      await this.#scheduleTeam(waiting, team, signal);
      return;
    }
    const result = await this.#cycles.place(waiting, profile, signal);
    if ('failure' in result) this.#refused(result);
    else this.#binding.begin(result, signal);
  }

  async #scheduleTeam(waiting: Waiting, team: PodTeam, signal: AbortSignal): Promise<void> {
    const members = [waiting, ...this.#queue.takeWith((pod) => pod !== waiting.pod && team.has(pod))].flatMap((each) => {
      const profile = this.#profileOf(each.pod);
      return profile === undefined ? [] : [{ waiting: each, profile }];
    });
    const { placed, refused } = await new TeamCycle(team, members, this.#cycles, this.#cache, signal).place();
    for (const each of refused) this.#refused(each);
    for (const each of placed) this.#binding.begin(each, signal);
  }

  #bound({ waiting, node, profile }: Placed): void {
    this.#queue.done(waiting);
    const { namespace, name } = waiting.pod.metadata ?? {};
    this.#recorders
      .get(profile.schedulerName)
      ?.event(waiting.pod, 'Normal', 'Scheduled', `Successfully assigned ${namespace}/${name} to ${node}`, undefined, { name: 'Binding' });
  }

  #unbound({ waiting, profile, cause }: Placed, failure: Failed['failure'] | undefined, announced: boolean): void {
    this.#cache.forget(waiting.key);
    if (failure === undefined) return;
    this.#queue.refresh(waiting, this.#pods.get(waiting.key));
    // what it had taken may do for another
    this.#queue.moved('AssignedPod', 'deleted', waiting.pod, undefined, cause);
    this.#refused({ waiting, profile, cause, failure }, announced);
  }

  /** Back to the queue, and said on the pod. */
  #refused({ waiting, profile, cause, failure }: Failed, announced = false): void {
    const { by, reason, message, nominated } = failure;
    if (nominated !== undefined) this.#nominate(waiting, nominated, cause);
    const { pod } = waiting;
    const known = this.#queue.has(waiting.key);
    this.#queue.failed(waiting, by);
    if (!known) return; // gone meanwhile
    this.#recorders.get(profile.schedulerName)?.event(pod, 'Warning', 'FailedScheduling', message, undefined, { name: 'Scheduling' });
    this.#reporter.refused(pod, reason, message, cause, nominated, announced);
  }

  /** Keeps the room that was made; who was to have it and matters less looks for another place. */
  #nominate(pod: Waiting, node: string, cause: Cause | undefined): void {
    if (node === '') {
      this.#nominations.delete(pod.key);
      return;
    }
    if (!this.#queue.has(pod.key)) return; // gone meanwhile
    for (const other of this.#nominations.on(node)) {
      if (priorityOf(other) >= priorityOf(pod)) continue;
      this.#nominations.delete(other.key);
      this.#reporter.clearNomination(other.pod, cause);
      this.#queue.activate(other.key);
    }
    this.#nominations.set(pod, node);
  }
}
