import type { Pod } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/client/backoff';
import type { Timer } from '@oarlock/kernel/clock';
import type { Cause } from '@oarlock/kernel/tracing';
import type { NodeContext } from './node-context.ts';
import { compare } from './pod-changes.ts';
import { PodLife, type PodLifeOptions, type Stage } from './pod-life.ts';
import { withReportedResources, withResourcesOf } from './given-resources.ts';
import { PodResize, type ResizeRefusal } from './pod-resize.ts';
import { describePod, isDeleted, isTerminalPhase } from './pods.ts';
import { PodRecord } from './pod-record.ts';
import type { RuntimeListener } from './runtime-hub.ts';
import { take } from './status-manager.ts';
import { SyncPass } from './sync-pass.ts';

export interface PodWorkerOptions extends Pick<PodLifeOptions, 'found' | 'orphan' | 'admit' | 'released'> {
  readonly node: NodeContext;
  readonly pod: Pod;
  /** Run without being asked for by the API. */
  readonly static?: boolean;
  /** Takes other resources for a pod that was admitted, or says why not. */
  resize(pod: Pod): ResizeRefusal | undefined;
  /** Nothing is left to do, and the API object is gone. */
  finished(): void;
}

const maxCauses = 32;

/**
 * Looks after one pod: woken by changes of it, by events of the runtime, probes, timers and objects it refers to, it looks at what there is
 * and does what is next. One look at a time; what comes meanwhile leads to another.
 */
export class PodWorker implements RuntimeListener {
  readonly record: PodRecord;
  readonly #options: PodWorkerOptions;
  readonly #node: NodeContext;
  readonly #life: PodLife;
  #queued = false;
  #running = false;
  #again = false;
  #causes: Cause[] = [];
  /** The write that is behind everything that happens without one of its own. */
  #lastCause: Cause | undefined;
  #enqueuedAt = 0;
  #abort: AbortController | undefined;
  #retry: Timer | undefined;
  #failures: Backoff | undefined;
  /** Told after each look. */
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
      this.record.resize.want(pod);
    }
    this.#life = new PodLife({
      record: this.record,
      listener: this,
      found,
      orphan,
      admit,
      released,
      wake: (cause) => this.wake(cause),
      cause: () => this.#lastCause,
    });
  }

  get state() {
    return this.record.state;
  }
  get stage(): Stage {
    return this.#life.stage;
  }
  get active(): boolean {
    return this.#running;
  }

  /** The pod's object changed. */
  update(pod: Pod, cause: Cause | undefined): void {
    const { record } = this;
    const { spec, metadata, gates } = compare(record.pod, pod);
    const graceBefore = record.pod.metadata?.deletionGracePeriodSeconds;
    const wasDeleted = isDeleted(record.pod);
    this.#take(pod, spec);
    take(record, pod);
    if (!isDeleted(pod)) this.#node.statuses.assert(record, cause);
    if (metadata) this.#life.contentChanged();
    if (isDeleted(pod) && (!wasDeleted || graceBefore !== pod.metadata?.deletionGracePeriodSeconds)) this.#terminate(cause, true);
    else if (this.stage === 'syncing' && isTerminalPhase(pod.status?.phase)) this.#terminate(cause, true);
    else if (spec || metadata || gates) this.wake(cause);
  }

  /** What the API shows of a static pod; undefined when that is gone. */
  mirrored(mirror: Pod | undefined): void {
    const { record } = this;
    record.api = mirror;
    if (mirror && record.status) this.#node.statuses.set(record, record.status, undefined);
  }

  /** The pod is not in the API any more, or a static pod's manifest is gone. */
  removed(cause: Cause | undefined): void {
    if (this.#life.gone) return;
    this.#life.gone = true;
    this.record.api = undefined;
    if (this.stage === 'finished') this.#options.finished();
    else this.#terminate(cause, false);
  }

  stale(_sandboxId: string | undefined, containerId: string | undefined): void {
    this.#life.lookAgain(containerId);
    this.wake(undefined);
  }

  wake(cause: Cause | undefined): void {
    if (cause && this.#causes.length < maxCauses) this.#causes.push(cause);
    if (this.#running) {
      this.#again = true;
      return;
    }
    if (this.#queued || this.stage === 'finished' || this.#node.signal.aborted) return;
    this.#queued = true;
    this.#enqueuedAt = this.#node.clock.now();
    this.#node.turns.push(() => {
      void this.#run();
    });
  }

  /** Resolves when the container does not run any more, as far as this kubelet knows. */
  async whenEnded(containerId: string, signal: AbortSignal): Promise<void> {
    while (this.state.container(containerId)?.state === 'RUNNING' && !signal.aborted) await this.#looked(signal);
  }

  /** Resolves after the next look, or when the signal aborts. */
  #looked(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const tell = () => {
        signal.removeEventListener('abort', tell);
        resolve();
      };
      signal.addEventListener('abort', tell, { once: true });
      (this.#watchers ??= []).push(tell);
    });
  }

  /** Ends the pod for the node's sake: it has failed then, and whoever made it may make another elsewhere. */
  evict(message: string, graceSeconds: number, reason = 'Evicted'): void {
    if (this.stage !== 'syncing') return;
    if (reason === 'Evicted' || reason === 'Preempting') this.record.event('Warning', reason, message);
    this.#life.condemn({ reason, message, graceSeconds, disrupts: true });
    this.#terminate(undefined, false, true);
  }
  /** The node has asked the pod to go. */
  get evicted(): boolean {
    return this.#life.condemned;
  }

  /** Resolves when nothing of the pod runs any more, or the signal aborts. */
  async whenStopped(signal: AbortSignal): Promise<void> {
    while ((this.stage === 'syncing' || this.stage === 'terminating') && !signal.aborted) await this.#looked(signal);
  }

  /** Ends what the worker does, not the pod. */
  close(): void {
    this.#abort?.abort();
    this.#retry?.cancel();
    this.#life.close();
    this.#tellWatchers();
  }

  /** A pod that was admitted keeps the resources it was given until a pass has given it others (KEP-1287). */
  #take(pod: Pod, changed: boolean): void {
    const { record } = this;
    const held = this.#life.admitted && changed ? withResourcesOf(pod, record.pod) : pod;
    if (held !== pod) record.resize ??= new PodResize(record, this.#options.resize);
    if (record.resize) record.resize.want(pod);
    else record.pod = pod;
  }

  /** Forward only; what is under way for the stage before ends. */
  #terminate(cause: Cause | undefined, hurry: boolean, condemned = false): void {
    const interrupted = condemned || this.stage === 'syncing' || (this.stage === 'terminating' && hurry);
    this.#life.terminate();
    if (interrupted) this.#abort?.abort();
    this.#retry?.cancel();
    this.wake(cause);
  }

  async #run(): Promise<void> {
    this.#queued = false;
    if (this.#node.signal.aborted) return;
    this.#running = true;
    this.#again = false;
    this.#retry?.cancel();
    this.#retry = undefined;
    const abort = new AbortController();
    this.#abort = abort;
    if (this.#causes.length > 0) this.#lastCause = this.#causes[0];
    const causes = this.#causes.length > 0 ? this.#causes : this.#lastCause ? [this.#lastCause] : [];
    this.#causes = [];
    const pass = new SyncPass(this.record, abort.signal, causes, this.#enqueuedAt);
    try {
      await this.#life.pass(pass);
      this.#failures = undefined;
    } catch (error) {
      if (!abort.signal.aborted) this.#failed(pass, error);
    } finally {
      pass.end();
      this.#running = false;
      if (this.#abort === abort) this.#abort = undefined;
      this.#tellWatchers();
    }
    if (this.stage === 'finished') {
      if (this.#life.gone) this.#options.finished();
    } else if (this.#again || pass.retryMs === 0) this.wake(undefined);
    else if (pass.retryMs !== undefined && !this.#node.signal.aborted)
      this.#retry = this.#node.clock.after(pass.retryMs, () => this.wake(undefined));
  }

  #failed(pass: SyncPass, error: unknown): void {
    pass.fail(error);
    this.#failures ??= new Backoff({ firstMs: 1000, longestMs: 60_000, jitter: 0.2, random: this.#node.random });
    pass.retryIn(this.#failures.next());
    this.#node.log.warn({ err: error, pod: describePod(this.record.pod), stage: this.stage }, 'a pod could not be synced; trying again');
  }

  #tellWatchers(): void {
    const watchers = this.#watchers ?? [];
    this.#watchers = undefined;
    for (const tell of watchers) tell();
  }
}
