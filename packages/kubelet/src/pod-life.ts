import { formatTime, parseTime } from '@oarlock/api/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/client/backoff';
import type { Cause } from '@oarlock/kernel/tracing';
import type { NodeContext, PodRuntime } from './node-context.ts';
import { PodContent } from './pod-content.ts';
import { deleteObject, removeRemains } from './pod-cleanup.ts';
import { PodReport, type PodEnd } from './pod-report.ts';
import { stopPod } from './pod-sandbox.ts';
import { applySpec, dropOldFailures, prepareVolumes } from './pod-sync.ts';
import { syncProbes } from './probes/sync-probes.ts';
import { isDeleted, isHostNetwork, isTerminalPhase } from './pods.ts';
import type { PodRecord } from './pod-record.ts';
import { restartAll, restartsAll } from './restart-all.ts';
import type { Found, RuntimeListener } from './runtime-hub.ts';
import type { SyncPass } from './sync-pass.ts';
import { readMessages } from './termination-message.ts';

/**
 * Where a pod is in its life on the node; it only ever goes forward.
 * - `syncing`: brought to what its spec says
 * - `terminating`: deleted, gone, or ended: everything is being stopped
 * - `terminated`: nothing runs any more; to be cleaned up, and deleted if that was asked for
 * - `finished`: nothing is left to do
 */
export type Stage = 'syncing' | 'terminating' | 'terminated' | 'finished';
export interface Verdict extends PodEnd {
  /** Of what ends a pod that runs: how long it may take. Absent: what the pod says. */
  readonly graceSeconds?: number;
}

export interface PodLifeOptions {
  readonly record: PodRecord;
  readonly listener: RuntimeListener;
  /** What the runtime had of the pod when the kubelet began. */
  readonly found?: { readonly runtime: PodRuntime; readonly found: Found } | undefined;
  /** The pod is not in the API: only its remains are. */
  readonly orphan?: boolean;
  /** Asked before the pod gets anything; a verdict refuses it. `later`: others have to go first, and it is woken when they have. */
  admit(pod: Pod): Verdict | 'later' | undefined;
  /** Everything was stopped: what the pod took of the node is free. */
  released(): void;
  wake(cause: Cause | undefined): void;
  /** The write that is behind what happens without one of its own. */
  cause(): Cause | undefined;
}

/** Grace of a pod that nobody knows any more, in seconds. */
const orphanGrace = 1;

/** The stages of one pod's life and what is done in each. One pass at a time. */
export class PodLife {
  stage: Stage = 'syncing';
  readonly #options: PodLifeOptions;
  readonly #record: PodRecord;
  readonly #content: PodContent;
  readonly #report: PodReport;
  readonly #node: NodeContext;
  #verdict: Verdict | undefined;
  #admitted: boolean;
  #stale: Set<string> | 'all' | undefined;
  /** Containers whose preStop hook has run. */
  readonly #hooked = new Set<string>();
  #volumeBackoff: Backoff | undefined;
  /** Something may have been started. */
  #touched = false;
  #toldNetwork = false;

  constructor(options: PodLifeOptions) {
    this.#options = options;
    this.#record = options.record;
    this.#node = options.record.node;
    this.#content = new PodContent(options.record, options.wake);
    this.#report = new PodReport(options.record, options.cause);
    const {
      found,
      orphan = false,
      record: { pod },
    } = options;
    this.#record.adopted = found !== undefined && found.found.sandboxes.length > 0;
    // what runs already, or was taken on before, is not refused any more
    this.#admitted = found !== undefined || pod.status?.startTime !== undefined;
    this.gone = orphan;
    if (orphan || isDeleted(pod) || isTerminalPhase(pod.status?.phase)) this.stage = 'terminating';
  }

  /** Not in the API any more. */
  get gone(): boolean {
    return this.#report.gone;
  }
  set gone(gone: boolean) {
    this.#report.gone = gone;
  }

  /** The pod has been taken in: it has its share of the node. */
  get admitted(): boolean {
    return this.#admitted;
  }

  /** The node ends the pod, for a reason that its status will show. */
  condemn(verdict: Verdict): void {
    this.#verdict ??= verdict;
    this.terminate();
  }
  get condemned(): boolean {
    return this.#verdict?.disrupts === true;
  }

  terminate(): void {
    if (this.stage === 'syncing') this.stage = 'terminating';
  }

  /** What volumes show has changed. */
  contentChanged(): void {
    this.#content.changed();
  }

  /** The container, or everything, is not as it is known. */
  lookAgain(containerId: string | undefined): void {
    if (containerId === undefined) this.#stale = 'all';
    else if (this.#stale === undefined) this.#stale = new Set([containerId]);
    else if (this.#stale !== 'all') this.#stale.add(containerId);
  }

  close(): void {
    this.#record.probes?.stop();
    this.#content.release();
    this.#record.runtime?.hub.leave(this.#options.listener);
  }

  async pass(pass: SyncPass): Promise<void> {
    await this.#openRuntime(pass);
    if (this.stage === 'syncing') await this.#sync(pass);
    if (this.stage === 'terminating') await this.#stop(pass);
    if (this.stage === 'terminated') await this.#cleanUp(pass);
  }

  /** Finds the pod's runtime, and what it has of the pod already. */
  async #openRuntime({ signal }: SyncPass): Promise<void> {
    const record = this.#record;
    if (record.runtime !== undefined) return;
    const { found, orphan, listener } = this.#options;
    try {
      const { runtime, handler } = found && orphan ? { runtime: found.runtime, handler: '' } : await this.#node.runtimeFor(record.pod);
      if (found) await found.runtime.hub.adopt(listener, found.found, signal);
      record.handler = handler;
      record.runtime = found?.runtime ?? runtime;
      if (found) this.#node.cgroups.of(record.runtime)?.count(record.pod);
    } catch (error) {
      signal.throwIfAborted();
      // nothing was started then, so there is nothing to stop either
      if (this.stage !== 'syncing' && !found) return;
      const why = error instanceof Error ? error.message : String(error);
      if (!found) record.event('Warning', 'FailedCreatePodSandBox', `Failed to create pod sandbox: ${why}`);
      throw error;
    }
  }

  async #sync(pass: SyncPass): Promise<void> {
    const record = this.#record;
    const { pod } = record;
    if (!this.#admitted) {
      const refusal = this.#options.admit(pod);
      if (refusal === 'later') return;
      if (refusal) {
        this.#refuse(pass, refusal);
        return;
      }
      this.#admitted = true;
    }
    this.#touched = true;
    await this.#look(pass);
    if (this.#pastDeadline(pass)) return;
    if (record.resize?.decide() === true) this.#content.changed();
    // what probes found before this kubelet began still holds
    if (record.adopted) syncProbes(record, this.#options);
    record.restarting = restartsAll(record);
    if (record.restarting) {
      const ended = await restartAll(pass, this.#report);
      syncProbes(record, this.#options);
      if (!ended) return;
    } else if (record.status === undefined || !record.state.isEmpty) {
      this.#report.tell(pass, { lazy: true });
      if (isTerminalPhase(record.status?.phase)) {
        this.stage = 'terminating';
        return;
      }
    }
    if (!this.#node.networkReady && !isHostNetwork(pod) && record.state.readySandbox === undefined) {
      if (!this.#toldNetwork) record.event('Warning', 'NetworkNotReady', `network is not ready: ${this.#node.networkProblem}`);
      this.#toldNetwork = true;
      return; // the node wakes its pods when it is
    }
    this.#content.hold();
    if (await prepareVolumes(pass)) {
      this.#volumeBackoff = undefined;
      await this.#content.refresh(pass);
      await record.resize?.apply(pass);
      await applySpec(pass, this.#options.listener);
      await record.resize?.ended(pass);
    } else
      pass.retryIn(
        (this.#volumeBackoff ??= new Backoff({ firstMs: 500, longestMs: 122_000, jitter: 0.1, random: this.#node.random })).next(),
      );
    dropOldFailures(record);
    syncProbes(record, this.#options);
    await readMessages(record);
    this.#report.tell(pass, { lazy: false });
    if (isTerminalPhase(record.status?.phase)) this.stage = 'terminating';
  }

  /** Reads again what events said has changed. */
  async #look({ signal }: SyncPass): Promise<void> {
    const record = this.#record;
    const { runtime, state } = record;
    const stale = this.#stale;
    this.#stale = undefined;
    if (!runtime) return;
    try {
      if (stale === 'all') await runtime.hub.load(this.#options.listener, record.uid, signal);
      else
        for (const id of stale ?? []) {
          const status = await runtime.hub.containerStatus(id, signal);
          if (status) state.setContainer(status);
          else state.removeContainer(id);
        }
    } catch (error) {
      this.#stale = 'all';
      throw error;
    }
    await readMessages(record);
  }

  #refuse(pass: SyncPass, { reason, message }: Verdict): void {
    const record = this.#record;
    record.event('Warning', reason, message);
    this.stage = 'terminated';
    this.#admitted = true;
    const { startTime = formatTime(record.startedAt), qosClass } = record.pod.status ?? {};
    this.#report.set(pass, { phase: 'Failed', reason, message, startTime, ...(qosClass !== undefined && { qosClass }) }, false);
  }

  /** `activeDeadlineSeconds`, counted from the start time that was reported. */
  #pastDeadline(pass: SyncPass): boolean {
    const record = this.#record;
    const seconds = record.pod.spec?.activeDeadlineSeconds;
    if (seconds === undefined) return false;
    const started = parseTime(record.status?.startTime ?? record.pod.status?.startTime ?? '') ?? record.startedAt;
    const left = started + seconds * 1000 - this.#node.clock.now();
    if (left > 0) {
      pass.retryIn(left);
      return false;
    }
    this.#verdict = { reason: 'DeadlineExceeded', message: 'Pod was active on the node longer than the specified deadline' };
    record.event('Normal', this.#verdict.reason, this.#verdict.message);
    this.stage = 'terminating';
    return true;
  }

  async #stop(pass: SyncPass): Promise<void> {
    const record = this.#record;
    const { pod } = record;
    record.probes?.terminate();
    // what was interrupted may have left something that is not in the record
    if (this.#touched || !record.state.isEmpty) {
      this.#stale = 'all';
      await this.#look(pass);
    }
    const seconds = pod.metadata?.deletionGracePeriodSeconds;
    const grace = this.#options.orphan ? orphanGrace : seconds === undefined ? this.#verdict?.graceSeconds : Math.max(1, seconds);
    if (!record.state.isEmpty) await stopPod(record, { grace, signal: pass.signal, hooked: this.#hooked });
    await this.#look(pass);
    record.probes?.stop();
    this.#content.release();
    await this.#node.claims?.release(record.uid, pass.signal);
    this.stage = 'terminated';
    this.#options.released();
    // of a pod that had ended before this kubelet began, everything was said then
    const known = record.status === undefined && record.state.isEmpty && isTerminalPhase(pod.status?.phase);
    if (!this.gone && !known) this.#report.tell(pass, { end: { verdict: this.#verdict }, lazy: false });
  }

  async #cleanUp(pass: SyncPass): Promise<void> {
    const record = this.#record;
    const { runtime, uid } = record;
    const { volumes, tokens, deadlines, statuses } = this.#node;
    if (runtime?.hollow === false) await volumes.teardown(uid, { signal: pass.signal, cause: undefined });
    await this.#node.cgroups.of(runtime)?.remove(record.pod);
    tokens.forget(uid);
    deadlines.delete(uid);
    if (!this.gone && !isDeleted(record.pod)) return; // what it left stays to be looked at
    // the last status has to be safe before what it is made from goes
    if (!this.gone) await statuses.flushed(record);
    await removeRemains(pass);
    runtime?.hub.leave(this.#options.listener);
    if (!this.gone) await deleteObject(pass);
    this.stage = 'finished';
  }
}
