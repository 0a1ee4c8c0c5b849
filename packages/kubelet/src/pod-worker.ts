import { rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { jsonEqual } from '@oarlock/api/json';
import { pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/time';
import type { Pod, PodStatus } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/client/backoff';
import type { Timer } from '@oarlock/kernel/clock';
import type { Cause } from '@oarlock/kernel/tracing';
import { environmentReferences } from './environment.ts';
import type { NodeContext, PodRuntime } from './node-context.ts';
import { cgroupParent } from './pod-config.ts';
import { compare } from './pod-changes.ts';
import { removePod, stopPod } from './pod-sandbox.ts';
import { podStatus } from './pod-status.ts';
import { applySpec, dropOldFailures, prepareVolumes, verdictsOf } from './pod-sync.ts';
import { hasProbes, PodProbes } from './probes/pod-probes.ts';
import { describePod, isDeleted, isHostNetwork, isTerminalPhase } from './pods.ts';
import { PodRecord } from './pod-record.ts';
import type { Found, RuntimeListener } from './runtime-hub.ts';
import { take } from './status-manager.ts';
import { SyncPass } from './sync-pass.ts';
import { terminationMessage } from './termination-message.ts';

/**
 * Where a pod is in its life on the node; it only ever goes forward.
 * - `syncing`: brought to what its spec says
 * - `terminating`: deleted, gone, or ended: everything is being stopped
 * - `terminated`: nothing runs any more; to be cleaned up, and deleted if that was asked for
 * - `finished`: nothing is left to do; the worker goes when the API object does
 */
export type Stage = 'syncing' | 'terminating' | 'terminated' | 'finished';
export interface Verdict { readonly reason: string; readonly message: string }

export interface PodWorkerOptions {
  readonly node: NodeContext;
  readonly pod: Pod;
  /** What the runtime had of the pod when the kubelet began. */
  readonly found?: { readonly runtime: PodRuntime; readonly found: Found } | undefined;
  /** The pod is not in the API: only its remains are. */
  readonly orphan?: boolean;
  /** Asked once, before the pod gets anything; a verdict refuses it. */
  admit(pod: Pod): Verdict | undefined;
  /** The worker has stopped everything: what the pod took of the node is free. */
  released(): void;
  /** Nothing is left to do. */
  finished(): void;
}

const maxCauses = 32;
/** Grace of a pod that nobody knows any more, in seconds. */
const orphanGrace = 1;

/**
 * Looks after one pod: woken by changes of it, by events of the runtime, probes, timers and objects it refers to, it looks at what there is
 * and does what is next. One look at a time; what comes meanwhile leads to another.
 */
export class PodWorker implements RuntimeListener {
  readonly record: PodRecord;
  readonly #options: PodWorkerOptions;
  readonly #node: NodeContext;
  #stage: Stage = 'syncing';
  #gone: boolean;
  #verdict: Verdict | undefined;
  #admitted: boolean;
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
  #volumeBackoff: Backoff | undefined;
  /** Something may have been started. */
  #touched = false;
  #stale: Set<string> | 'all' | undefined;
  #refresh = false;
  #holds: (() => void)[] | undefined;
  #hooked: Set<string> | undefined;
  #toldNetwork = false;
  /** Told after each look. */
  #watchers: (() => void)[] | undefined;

  constructor(options: PodWorkerOptions) {
    this.#options = options;
    this.#node = options.node;
    const { pod, orphan = false } = options;
    this.record = new PodRecord(options.node, pod, orphan ? undefined : pod);
    this.record.adopted = options.found !== undefined && options.found.found.sandboxes.length > 0;
    // what runs already, or was taken on before, is not refused any more
    this.#admitted = options.found !== undefined || pod.status?.startTime !== undefined;
    this.#gone = orphan;
    if (orphan || isDeleted(pod) || isTerminalPhase(pod.status?.phase)) this.#stage = 'terminating';
  }

  get state() { return this.record.state; }
  get stage(): Stage { return this.#stage; }
  get active(): boolean { return this.#running; }

  /** The pod's object changed. */
  update(pod: Pod, cause: Cause | undefined): void {
    const { record } = this;
    const { spec, metadata, gates } = compare(record.pod, pod);
    const graceBefore = record.pod.metadata?.deletionGracePeriodSeconds;
    const wasDeleted = isDeleted(record.pod);
    record.pod = pod;
    take(record, pod);
    if (metadata) this.#refresh = true;
    if (isDeleted(pod) && (!wasDeleted || graceBefore !== pod.metadata?.deletionGracePeriodSeconds)) this.#terminate(cause, true);
    else if (this.#stage === 'syncing' && isTerminalPhase(pod.status?.phase)) this.#terminate(cause, true);
    else if (spec || metadata || gates) this.wake(cause);
  }

  /** The pod is not in the API any more. */
  removed(cause: Cause | undefined): void {
    if (this.#gone) return;
    this.#gone = true;
    this.record.api = undefined;
    if (this.#stage === 'finished') { this.#options.finished(); return; }
    this.#terminate(cause, false);
  }

  stale(_sandboxId: string | undefined, containerId: string | undefined): void {
    if (containerId === undefined) this.#stale = 'all';
    else if (this.#stale === undefined) this.#stale = new Set([containerId]);
    else if (this.#stale !== 'all') this.#stale.add(containerId);
    this.wake(undefined);
  }

  wake(cause: Cause | undefined): void {
    if (cause && this.#causes.length < maxCauses) this.#causes.push(cause);
    if (this.#running) { this.#again = true; return; }
    if (this.#queued || this.#stage === 'finished' || this.#node.signal.aborted) return;
    this.#queued = true;
    this.#enqueuedAt = this.#node.clock.now();
    this.#node.turns.push(() => { void this.#run(); });
  }

  /** Resolves when the container does not run any more, as far as this kubelet knows. */
  async whenEnded(containerId: string, signal: AbortSignal): Promise<void> {
    while (this.state.container(containerId)?.state === 'RUNNING' && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const tell = () => { signal.removeEventListener('abort', tell); resolve(); };
        signal.addEventListener('abort', tell, { once: true });
        (this.#watchers ??= []).push(tell);
      });
    }
  }

  /** Ends what the worker does, not the pod. */
  close(): void {
    this.#abort?.abort();
    this.#retry?.cancel();
    this.record.probes?.stop();
    this.#release();
    this.record.runtime?.hub.leave(this);
    this.#tellWatchers();
  }

  #tellWatchers(): void {
    const watchers = this.#watchers ?? [];
    this.#watchers = undefined;
    for (const tell of watchers) tell();
  }

  /** Forward only; what is under way for the stage before ends. */
  #terminate(cause: Cause | undefined, hurry: boolean): void {
    const interrupted = this.#stage === 'syncing' || (this.#stage === 'terminating' && hurry);
    if (this.#stage === 'syncing') this.#stage = 'terminating';
    if (interrupted) this.#abort?.abort();
    this.#retry?.cancel();
    this.wake(cause);
  }

  async #run(): Promise<void> {
    this.#queued = false;
    if (this.#node.signal.aborted) return;
    this.#running = true;
    this.#retry?.cancel();
    this.#retry = undefined;
    const abort = new AbortController();
    this.#abort = abort;
    if (this.#causes.length > 0) this.#lastCause = this.#causes[0];
    const pass = new SyncPass(this.record, abort.signal, this.#causes.length > 0 ? this.#causes : this.#lastCause ? [this.#lastCause] : [], this.#enqueuedAt);
    this.#causes = [];
    this.#again = false;
    try {
      await this.#pass(pass);
      this.#failures = undefined;
    } catch (error) {
      if (!abort.signal.aborted) {
        pass.fail(error);
        this.#failures ??= new Backoff({ firstMs: 1000, longestMs: 60_000, jitter: 0.2, random: this.#node.random });
        pass.retryIn(this.#failures.next());
        this.#node.log.warn({ err: error, pod: describePod(this.record.pod), stage: this.#stage }, 'a pod could not be synced; trying again');
      }
    } finally {
      pass.end();
      this.#running = false;
      if (this.#abort === abort) this.#abort = undefined;
      this.#tellWatchers();
    }
    if (this.#again || pass.retryMs === 0) this.wake(undefined);
    else if (pass.retryMs !== undefined && this.#stage !== 'finished' && !this.#node.signal.aborted) this.#retry = this.#node.clock.after(pass.retryMs, () => this.wake(undefined));
  }

  async #pass(pass: SyncPass): Promise<void> {
    await this.#openRuntime(pass);
    if (this.#stage === 'syncing') await this.#sync(pass);
    if (this.#stage === 'terminating') await this.#stop(pass);
    if (this.#stage === 'terminated') await this.#cleanUp(pass);
  }

  /** Finds the pod's runtime, and what it has of the pod already. */
  async #openRuntime({ signal }: SyncPass): Promise<void> {
    const { record } = this;
    if (record.runtime !== undefined) return;
    const { found, orphan } = this.#options;
    try {
      const { runtime, handler } = found && orphan ? { runtime: found.runtime, handler: '' } : await this.#node.runtimeFor(record.pod);
      if (found) await found.runtime.hub.adopt(this, found.found, signal);
      record.handler = handler;
      record.runtime = found?.runtime ?? runtime;
    } catch (error) {
      signal.throwIfAborted();
      // nothing was started then, so there is nothing to stop either
      if (this.#stage !== 'syncing' && !found) return;
      if (!found) record.event('Warning', 'FailedCreatePodSandBox', `Failed to create pod sandbox: ${error instanceof Error ? error.message : String(error)}`);
      throw error;
    }
  }

  async #sync(pass: SyncPass): Promise<void> {
    const { record } = this;
    const { pod } = record;
    if (!this.#admitted) {
      const refusal = this.#options.admit(pod);
      if (refusal) { this.#refuse(pass, refusal); return; }
      this.#admitted = true;
    }
    this.#touched = true;
    await this.#look(pass);
    if (this.#pastDeadline(pass)) return;
    // what probes found before this kubelet began still holds
    if (record.adopted) this.#syncProbes();
    if (record.status === undefined || !record.state.isEmpty) {
      this.#report(pass, false, true);
      if (isTerminalPhase(record.status?.phase)) { this.#stage = 'terminating'; return; }
    }
    if (!this.#node.networkReady && !isHostNetwork(pod) && record.state.readySandbox === undefined) {
      if (!this.#toldNetwork) record.event('Warning', 'NetworkNotReady', `network is not ready: ${this.#node.networkProblem}`);
      this.#toldNetwork = true;
      return; // the node wakes its pods when it is
    }
    this.#hold();
    if (!await prepareVolumes(pass)) pass.retryIn((this.#volumeBackoff ??= new Backoff({ firstMs: 500, longestMs: 122_000, jitter: 0.1, random: this.#node.random })).next());
    else {
      this.#volumeBackoff = undefined;
      if (this.#refresh) await this.#refreshVolumes(pass);
      this.#watchTokens();
      await applySpec(pass, this);
    }
    dropOldFailures(record);
    this.#syncProbes();
    this.#report(pass, false, false);
    if (isTerminalPhase(record.status?.phase)) this.#stage = 'terminating';
  }

  /** Reads again what events said has changed. */
  async #look({ signal }: SyncPass): Promise<void> {
    const { record } = this;
    const { runtime, state } = record;
    const stale = this.#stale;
    this.#stale = undefined;
    if (!runtime) return;
    try {
      if (stale === 'all') await runtime.hub.load(this, record.uid, signal);
      else for (const id of stale ?? []) {
        const status = await runtime.hub.containerStatus(id, signal);
        if (status) state.setContainer(status);
        else state.removeContainer(id);
      }
    } catch (error) {
      this.#stale = 'all';
      throw error;
    }
    if (runtime.hollow) return;
    for (const status of state.containers) {
      if (status.state === 'EXITED' && !record.messages.has(status.id)) record.setMessage(status.id, await terminationMessage(status));
    }
  }

  #refuse(pass: SyncPass, { reason, message }: Verdict): void {
    const { record } = this;
    record.event('Warning', reason, message);
    this.#stage = 'terminated';
    this.#admitted = true;
    this.#set(pass, { phase: 'Failed', reason, message, startTime: record.pod.status?.startTime ?? formatTime(record.startedAt), ...(record.pod.status?.qosClass && { qosClass: record.pod.status.qosClass }) }, false);
  }

  /** `activeDeadlineSeconds`, counted from the start time that was reported. */
  #pastDeadline(pass: SyncPass): boolean {
    const { record } = this;
    const seconds = record.pod.spec?.activeDeadlineSeconds;
    if (seconds === undefined) return false;
    const started = parseTime(record.status?.startTime ?? record.pod.status?.startTime ?? '') ?? record.startedAt;
    const left = started + seconds * 1000 - this.#node.clock.now();
    if (left > 0) { pass.retryIn(left); return false; }
    this.#verdict = { reason: 'DeadlineExceeded', message: 'Pod was active on the node longer than the specified deadline' };
    record.event('Normal', this.#verdict.reason, this.#verdict.message);
    this.#stage = 'terminating';
    return true;
  }

  async #stop(pass: SyncPass): Promise<void> {
    const { record } = this;
    const { runtime, pod } = record;
    record.probes?.terminate();
    // what was interrupted may have left something that is not in the record
    if (this.#touched || !record.state.isEmpty) {
      this.#stale = 'all';
      await this.#look(pass);
    }
    this.#hooked ??= new Set();
    const seconds = pod.metadata?.deletionGracePeriodSeconds;
    const grace = this.#options.orphan ? orphanGrace : seconds === undefined ? undefined : Math.max(1, seconds);
    if (!record.state.isEmpty) await stopPod(record, { grace, signal: pass.signal, hooked: this.#hooked });
    await this.#look(pass);
    record.probes?.stop();
    this.#release();
    this.#stage = 'terminated';
    this.#options.released();
    // of a pod that had ended before this kubelet began, everything was said then
    const known = record.status === undefined && record.state.isEmpty && isTerminalPhase(pod.status?.phase);
    if (!this.#gone && !known) this.#report(pass, true, false);
  }

  async #cleanUp(pass: SyncPass): Promise<void> {
    const { record } = this;
    const { runtime, pod, uid } = record;
    const node = this.#node;
    const { signal } = pass;
    if (runtime?.hollow === false) await node.volumes.teardown(uid, { signal, cause: undefined });
    node.tokens.forget(uid);
    node.deadlines.delete(uid);
    if (!this.#gone && !isDeleted(pod)) return; // what it left stays to be looked at
    // the last status has to be safe before what it is made from goes
    if (!this.#gone) await node.statuses.flushed(record);
    await removePod(record, signal);
    runtime?.hub.leave(this);
    runtime?.images.forget(uid);
    if (runtime?.hollow === false) {
      await rm(node.paths.podLogs(pod), { recursive: true, force: true });
      const cgroup = cgroupParent(pod, node.cgroupRoot);
      if (cgroup !== undefined) await rmdir(join('/sys/fs/cgroup', cgroup)).catch(() => undefined); // the runtime may have done it, or use another root
    }
    if (!this.#gone) await this.#deleteObject(pass);
    this.#stage = 'finished';
    if (this.#gone) this.#options.finished();
  }

  async #deleteObject(pass: SyncPass): Promise<void> {
    const { namespace, name, uid } = this.record;
    try {
      await this.#node.client.causedBy(pass.cause).delete(pods, { namespace, name }, { gracePeriodSeconds: 0, preconditions: { uid }, signal: pass.signal });
    } catch (error) {
      if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
    }
  }

  #report(pass: SyncPass, ended: boolean, lazy: boolean): void {
    const { record } = this;
    const { runtime, pod } = record;
    this.#set(pass, podStatus(pod, {
      state: record.state, verdicts: verdictsOf(record), failures: record.failures, messages: record.messages, runtimeName: runtime?.hub.name ?? '', ended,
      before: record.status ?? pod.status, hostIPs: this.#node.addresses, now: this.#node.clock.now(), startedAt: record.startedAt, ...(this.#verdict && ended && { verdict: this.#verdict }),
    }), lazy);
  }

  #set(pass: SyncPass, status: PodStatus, lazy: boolean): void {
    const { record } = this;
    const first = record.status === undefined;
    if (!first && jsonEqual(record.status, status)) {
      // a status that waits must not wait for ever because the one after is the same
      if (lazy || record.report?.state !== 'lazy') return;
    }
    record.status = status;
    if (this.#gone) return;
    // an adopted pod's status is mostly the one that is known: no span for what will not be sent
    this.#node.statuses.set(record, status, lazy ? this.#lastCause : pass.cause, lazy);
  }

  /** Watches the objects that the pod refers to, from its first start on. */
  #hold(): void {
    const { record } = this;
    const { runtime, pod } = record;
    if (this.#holds !== undefined || !runtime) return;
    const references = [...environmentReferences(pod), ...(runtime.hollow ? [] : this.#node.volumes.references(pod))];
    const changed = (_: unknown, cause: Cause | undefined) => {
      this.#refresh = true;
      this.wake(cause);
    };
    this.#holds = references.map((reference) => this.#node.objects.hold(reference, changed));
  }
  #release(): void {
    for (const release of this.#holds ?? []) release();
    this.#holds = [];
  }

  async #refreshVolumes(pass: SyncPass): Promise<void> {
    const { record } = this;
    this.#refresh = false;
    if (record.runtime?.hollow !== false || record.volumes.size === 0) return;
    try {
      await this.#node.volumes.refresh(record.pod, record.volumes, { signal: pass.signal, cause: undefined });
    } catch (error) {
      pass.signal.throwIfAborted();
      this.#refresh = true;
      pass.retryIn(10_000);
      record.event('Warning', 'FailedMount', `MountVolume.SetUp failed for volumes: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  /** Tokens are renewed before they end, whether or not anything else happens. */
  #watchTokens(): void {
    const { uid } = this.record;
    const due = this.#node.tokens.dueAt(uid);
    if (due !== undefined) this.#node.deadlines.set(uid, due, () => { this.#refresh = true; this.wake(undefined); });
  }

  #syncProbes(): void {
    const { record } = this;
    const { pod, runtime, state } = record;
    if (!runtime || (!record.probes && !hasProbes(pod))) return;
    const node = this.#node;
    record.probes ??= new PodProbes({
      driver: runtime.hub.driver, clock: node.clock, tracer: node.tracer, random: node.random, cause: () => this.#lastCause,
      event: (type, reason, message, path) => record.event(type, reason, message, path), changed: () => this.wake(undefined),
    });
    record.probes.sync(pod, state, state.podIPs[0] ?? node.addresses[0] ?? '127.0.0.1', record.adopted);
    record.adopted = false;
  }
}
