import { unenforcedInPod } from '../../../runtime/unenforced-settings.ts';
import { isolationRejection } from '../../../admission/isolation-admission.ts';
import { formatTime, parseTime } from '@oarlock/api/values/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import { errorText } from '@oarlock/primitives/error-text';
import { Backoff } from '@oarlock/primitives/backoff';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { NodeContext, PodRuntime } from '../../node-context.ts';
import { RuntimeStatusRefresher } from './runtime-status-refresher.ts';
import { VolumeRefresher } from './volume-refresher.ts';
import { deleteApiPod, removePodResources } from './pod-cleanup.ts';
import { PodStatusReporter, type PodFailure } from './pod-status-reporter.ts';
import { killPod } from '../../../kuberuntime/pod-sandbox.ts';
import { syncPod, clearObsoleteStartFailures, mountVolumes } from '../../../kuberuntime/sync-pod.ts';
import { syncProbes } from './sync-probes.ts';
import { isDeleted, isHostNetwork, isTerminalPhase } from '../../../pod-util/pods.ts';
import type { PodRecord } from '../../pod-record.ts';
import { restartAllContainers, shouldRestartAllContainers } from './restart-all-containers.ts';
import type { RuntimePod, PodLifecycleListener } from '../../../runtime/pleg.ts';
import type { SyncPass } from '../../sync-pass.ts';
import { readTerminationMessages } from './termination-message.ts';

/**
 * The stage of a pod worker (PodWorkerState upstream). A worker never returns to an earlier stage.
 * - `syncing`: the worker brings the pod to its desired state
 * - `terminating`: the pod was deleted, evicted or completed; the worker stops all containers
 * - `terminated`: all containers are stopped; the worker removes the pod's resources, and the API object of a deleted pod
 * - `finished`: the worker has no work left
 */
export type PodWorkerStage = 'syncing' | 'terminating' | 'terminated' | 'finished';
export interface PodTermination extends PodFailure {
  /** The grace period in seconds; undefined selects the pod's own grace period. */
  readonly graceSeconds?: number;
}

export interface PodSyncerOptions {
  readonly record: PodRecord;
  readonly listener: PodLifecycleListener;
  /** The pod's sandboxes and containers that the runtime had when the kubelet started; undefined if it had none. */
  readonly found?: { readonly runtime: PodRuntime; readonly found: RuntimePod } | undefined;
  /** True if the pod exists in the runtime, but in no pod source. */
  readonly orphan?: boolean;
  /**
   * Admits the pod and returns undefined, or returns why the pod is rejected. Returns `later` while pods are preempted for a critical pod; the
   * worker is woken when they have terminated.
   */
  admit(pod: Pod): PodTermination | 'later' | undefined;
  /** Called when all containers of the pod are stopped, so that the pod's share of the node's resources is free. */
  released(): void;
  wake(spanContext: SpanContext | undefined): void;
  /** Called with the span of a probe that changed its result. */
  probed(spanContext: SpanContext | undefined): void;
  /** Returns the trace span context of the last pass that a request caused, or of the request until the pass has ended. */
  spanContext(): SpanContext | undefined;
}

/** The grace period of orphaned pods. Seconds. */
const orphanGrace = 1;

/** Runs the stages of one pod: SyncPod, SyncTerminatingPod and SyncTerminatedPod upstream. Passes do not overlap. */
export class PodSyncer {
  stage: PodWorkerStage = 'syncing';
  readonly #options: PodSyncerOptions;
  readonly #record: PodRecord;
  readonly #volumeRefresher: VolumeRefresher;
  readonly #runtimeStatus: RuntimeStatusRefresher;
  readonly #statusReporter: PodStatusReporter;
  readonly #node: NodeContext;
  #termination: PodTermination | undefined;
  #admitted: boolean;
  /** The ids of containers whose preStop hook has run. */
  readonly #preStopHooksRun = new Set<string>();
  #volumeBackoff: Backoff | undefined;
  /** True once a pass may have started a container. */
  #mayHaveStarted = false;
  #networkNotReadyReported = false;

  constructor(options: PodSyncerOptions) {
    this.#options = options;
    this.#record = options.record;
    this.#node = options.record.node;
    this.#volumeRefresher = new VolumeRefresher(options.record, options.wake);
    this.#runtimeStatus = new RuntimeStatusRefresher(options.record, options.listener);
    this.#statusReporter = new PodStatusReporter(options.record, options.spanContext);
    const {
      found,
      orphan = false,
      record: { pod },
    } = options;
    this.#record.adopted = found !== undefined && found.found.sandboxes.length > 0;
    // a pod that runs or was admitted earlier is not rejected any more
    this.#admitted = found !== undefined || pod.status?.startTime !== undefined;
    this.deletedFromApi = orphan;
    if (orphan || isDeleted(pod) || isTerminalPhase(pod.status?.phase)) this.stage = 'terminating';
  }

  /** True when the pod's API object is gone. */
  get deletedFromApi(): boolean {
    return this.#statusReporter.deletedFromApi;
  }
  set deletedFromApi(gone: boolean) {
    this.#statusReporter.deletedFromApi = gone;
  }

  /** True once the node has admitted the pod. */
  get admitted(): boolean {
    return this.#admitted;
  }

  /** Terminates the pod. The pod's status shows the reason of the termination. */
  terminateWith(termination: PodTermination): void {
    this.#termination ??= termination;
    this.terminate();
  }
  get isEvicted(): boolean {
    return this.#termination?.isDisruption === true;
  }

  terminate(): void {
    if (this.stage === 'syncing') this.stage = 'terminating';
  }

  /** Marks the volumes stale whose content depends on the pod object. */
  volumeContentChanged(): void {
    this.#volumeRefresher.markStale();
  }

  /** Marks the runtime status of a container stale, or that of the whole pod if `containerId` is undefined. */
  invalidateRuntimeStatus(containerId: string | undefined): void {
    this.#runtimeStatus.invalidate(containerId);
  }

  close(): void {
    this.#record.probes?.stop();
    this.#volumeRefresher.release();
    this.#record.runtime?.pleg.unregister(this.#options.listener);
  }

  async sync(pass: SyncPass): Promise<void> {
    await this.#resolveRuntime(pass);
    if (this.stage === 'syncing') await this.#syncPod(pass);
    if (this.stage === 'terminating') await this.#syncTerminatingPod(pass);
    if (this.stage === 'terminated') await this.#syncTerminatedPod(pass);
  }

  /** Determines the pod's runtime and loads the pod's existing sandboxes and containers from the runtime. */
  async #resolveRuntime({ signal }: SyncPass): Promise<void> {
    const record = this.#record;
    if (record.runtime !== undefined) return;
    const { found, orphan, listener } = this.#options;
    try {
      const { runtime, handler } = found && orphan ? { runtime: found.runtime, handler: '' } : await this.#node.runtimeFor(record.pod);
      if (found) await found.runtime.pleg.adopt(listener, found.found, signal);
      record.handler = handler;
      record.runtime = found?.runtime ?? runtime;
      if (found) this.#node.containerManager.podContainerManager(record.runtime)?.trackPod(record.pod);
    } catch (error) {
      signal.throwIfAborted();
      // nothing was started in this case, so nothing has to be stopped
      if (this.stage !== 'syncing' && !found) return;
      const why = errorText(error);
      if (!found) record.event('Warning', 'FailedCreatePodSandBox', `Failed to create pod sandbox: ${why}`);
      throw error;
    }
  }

  /** Brings the pod to its desired state (SyncPod upstream). The steps run in the listed order; a step that returns false ends the pass. */
  async #syncPod(pass: SyncPass): Promise<void> {
    const record = this.#record;
    if (!(await this.#admit(pass))) return;
    this.#mayHaveStarted = true;
    await this.#runtimeStatus.refresh(pass);
    if (this.#activeDeadlineExceeded(pass)) return;
    this.#allocateResize();
    this.#restoreProbes();
    record.restartingAllContainers = shouldRestartAllContainers(record);
    if (record.restartingAllContainers) {
      if (!(await this.#restartAllContainers(pass))) return;
    } else if (!this.#reportCurrentStatus(pass)) return;
    if (!this.#waitForNetwork()) return;
    this.#volumeRefresher.watchObjects();
    const mounted = await mountVolumes(pass);
    if (typeof mounted === 'object') {
      this.#terminateFailed('Warning', mounted);
      return;
    }
    if (mounted) {
      this.#volumeBackoff = undefined;
      await this.#volumeRefresher.refresh(pass);
      await record.resize?.actuate(pass);
      await syncPod(pass, this.#options.listener);
      await record.resize?.onContainersChanged(pass);
    } else pass.retryIn(this.#nextVolumeRetryMs());
    clearObsoleteStartFailures(record);
    syncProbes(record, this.#options);
    await readTerminationMessages(record);
    this.#statusReporter.report(pass, { lazy: false });
    this.#terminateIfPhaseIsTerminal();
  }

  /** Admits the pod to the node. Returns false if the pod is rejected, or has to wait for preempted pods. */
  async #admit(pass: SyncPass): Promise<boolean> {
    if (this.#admitted) return true;
    const { pod, runtime } = this.#record;
    const unsafe = runtime && (await isolationRejection(pod, runtime.pleg.driver, { client: this.#node.client, signal: pass.signal }));
    const rejection = unsafe ?? this.#options.admit(pod);
    if (rejection === 'later') return false;
    if (rejection) {
      this.#rejectPod(pass, rejection);
      return false;
    }
    this.#admitted = true;
    this.#reportUnenforcedSettings();
    return true;
  }

  /** Records an event if the pod requests what its runtime does not enforce on this machine. A pod of an earlier kubelet has the event. */
  #reportUnenforcedSettings(): void {
    const { pod, runtime, adopted } = this.#record;
    const unenforced = runtime && !adopted ? unenforcedInPod(pod, runtime.pleg) : [];
    if (unenforced.length > 0) this.#record.event('Warning', 'PodSettingsNotEnforced', unenforced.join('; '));
  }

  /** Allocates the resources that the pod requests (KEP-1287), and marks downward API volumes stale, which may contain the resources. */
  #allocateResize(): void {
    if (this.#record.resize?.allocate() === true) this.#volumeRefresher.markStale();
  }

  /** Starts the probes of a pod that ran before this kubelet started. The reported probe results stay valid until a probe changes them. */
  #restoreProbes(): void {
    if (this.#record.adopted) syncProbes(this.#record, this.#options);
  }

  /** Restarts all containers if a container requested it. Returns true when all containers are terminated and removed. */
  async #restartAllContainers(pass: SyncPass): Promise<boolean> {
    const ended = await restartAllContainers(pass, this.#statusReporter);
    syncProbes(this.#record, this.#options);
    return ended;
  }

  /** Reports the pod's status before this pass changes anything. Returns false if the pod's phase is terminal. */
  #reportCurrentStatus(pass: SyncPass): boolean {
    const record = this.#record;
    if (record.status !== undefined && record.state.isEmpty) return true;
    this.#statusReporter.report(pass, { lazy: true });
    return !this.#terminateIfPhaseIsTerminal();
  }

  #terminateIfPhaseIsTerminal(): boolean {
    if (!isTerminalPhase(this.#record.status?.phase)) return false;
    this.stage = 'terminating';
    return true;
  }

  /** Returns false if the pod needs a new sandbox while the node's network is not ready. The node wakes its pods when the network is ready. */
  #waitForNetwork(): boolean {
    const { pod, state } = this.#record;
    if (this.#node.networkReady || isHostNetwork(pod) || state.readySandbox !== undefined) return true;
    if (!this.#networkNotReadyReported)
      this.#record.event('Warning', 'NetworkNotReady', `network is not ready: ${this.#node.networkNotReadyMessage}`);
    this.#networkNotReadyReported = true;
    return false;
  }

  #nextVolumeRetryMs(): number {
    return (this.#volumeBackoff ??= new Backoff({ firstMs: 500, longestMs: 122_000, jitter: 0.1, random: this.#node.random })).next();
  }

  #rejectPod(pass: SyncPass, { reason, message }: PodTermination): void {
    const record = this.#record;
    record.event('Warning', reason, message);
    this.stage = 'terminated';
    this.#admitted = true;
    const { startTime = formatTime(record.startedAt), qosClass } = record.pod.status ?? {};
    this.#statusReporter.setStatus(
      pass,
      { phase: 'Failed', reason, message, startTime, ...(qosClass !== undefined && { qosClass }) },
      false,
    );
  }

  /** Returns true if the pod has exceeded `activeDeadlineSeconds`, counted from the reported start time. */
  #activeDeadlineExceeded(pass: SyncPass): boolean {
    const record = this.#record;
    const seconds = record.pod.spec?.activeDeadlineSeconds;
    if (seconds === undefined) return false;
    const started = parseTime(record.status?.startTime ?? record.pod.status?.startTime ?? '') ?? record.startedAt;
    const left = started + seconds * 1000 - this.#node.clock.now();
    if (left > 0) {
      pass.retryIn(left);
      return false;
    }
    const message = 'Pod was active on the node longer than the specified deadline';
    this.#terminateFailed('Normal', { reason: 'DeadlineExceeded', message });
    return true;
  }

  #terminateFailed(type: 'Normal' | 'Warning', termination: PodTermination): void {
    this.#termination = termination;
    this.#record.event(type, termination.reason, termination.message);
    this.stage = 'terminating';
  }

  async #syncTerminatingPod(pass: SyncPass): Promise<void> {
    const record = this.#record;
    const { pod } = record;
    record.probes?.stopLivenessAndStartup();
    // an interrupted pass may have left containers that are not in the record
    if (this.#mayHaveStarted || !record.state.isEmpty) {
      this.#runtimeStatus.invalidate(undefined);
      await this.#runtimeStatus.refresh(pass);
    }
    const seconds = pod.metadata?.deletionGracePeriodSeconds;
    const grace = this.#options.orphan ? orphanGrace : seconds === undefined ? this.#termination?.graceSeconds : Math.max(1, seconds);
    if (!record.state.isEmpty) await killPod(record, { grace, signal: pass.signal, preStopHooksRun: this.#preStopHooksRun });
    await this.#runtimeStatus.refresh(pass);
    record.probes?.stop();
    this.#volumeRefresher.release();
    await this.#node.draManager?.unprepareResources(record.uid, pass.signal);
    this.stage = 'terminated';
    this.#options.released();
    // the final status of a pod that had terminated before this kubelet started was reported then
    const known = record.status === undefined && record.state.isEmpty && isTerminalPhase(pod.status?.phase);
    if (!this.deletedFromApi && !known) this.#statusReporter.report(pass, { end: { failure: this.#termination }, lazy: false });
  }

  async #syncTerminatedPod(pass: SyncPass): Promise<void> {
    const record = this.#record;
    const { runtime, uid } = record;
    const { volumeManager: volumes, tokenManager: tokens, deadlines, statusManager: statuses } = this.#node;
    if (runtime?.hollow === false) await volumes.teardown(uid, { signal: pass.signal, spanContext: undefined });
    await this.#node.containerManager.podContainerManager(runtime)?.destroy(record.pod);
    tokens.forget(uid);
    deadlines.delete(uid);
    if (!this.deletedFromApi && !isDeleted(record.pod)) return; // containers and logs stay readable
    // the last status must be stored before its sources are removed
    if (!this.deletedFromApi) await statuses.waitUntilSent(record);
    await removePodResources(pass);
    runtime?.pleg.unregister(this.#options.listener);
    if (!this.deletedFromApi) await deleteApiPod(pass);
    this.stage = 'finished';
  }
}
