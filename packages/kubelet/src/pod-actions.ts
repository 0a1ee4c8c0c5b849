import type { Container, EphemeralContainer, Pod } from '@oarlock/api/types/core-v1';
import type { ContainerStatus } from '@oarlock/spi/runtime';
import { containerHash, names } from './labels.ts';
import { isDeleted, isHostNetwork, isSidecar, restartPolicyOf, restartsAfter, type PlacedContainer } from './pods.ts';
import type { PodState } from './pod-state.ts';

export type KillReason = 'Resize' | 'StartupProbe' | 'LivenessProbe' | 'Unknown' | 'Changed' | 'FailedPostStart' | 'Pod';
export interface ContainerToKill {
  readonly id: string;
  readonly placed: PlacedContainer;
  readonly message: string;
  readonly reason: KillReason;
}

/** What has to be done to bring a pod from what runs to what its spec says. */
export interface PodActions {
  /** Stop everything, the sandbox too, before anything is started. */
  killPod: boolean;
  createSandbox: boolean;
  /** Of the sandbox to create. */
  attempt: number;
  toKill: ContainerToKill[];
  /** In this order; only as many as may run at this moment. */
  initToStart: number[];
  toStart: number[];
  ephemeralToStart: number[];
}

/** Results of probes by container id; undefined: none yet. */
export interface ProbeVerdicts {
  liveness(id: string): boolean | undefined;
  startup(id: string): boolean | undefined;
}
/** Whether a container has to be started anew for the resources that it was given. */
export type ResizeRestarts = (id: string) => boolean;
const never: ResizeRestarts = () => false;

type AnyContainer = Container | EphemeralContainer;

/** Whether a dead, unfinished or missing container is to be started (again). */
export function shouldRun(pod: Pod, container: AnyContainer, status: ContainerStatus | undefined): boolean {
  if (isDeleted(pod)) return false;
  if (status === undefined) return true;
  if (status.state === 'RUNNING') return false;
  if (status.state !== 'EXITED') return true;
  return restartsAfter(pod, container, status.exitCode ?? 0);
}

const restartsOnFailure = (pod: Pod) => pod.spec?.restartPolicy !== 'Never';
const isChanged = (container: AnyContainer, status: ContainerStatus) =>
  status.annotations[names.hash] !== undefined && status.annotations[names.hash] !== containerHash(container);
const succeeded = (status: ContainerStatus | undefined) => status?.state === 'EXITED' && (status.exitCode ?? 0) === 0;

/** Whether the pod needs a new sandbox: there is none, or not exactly one that is ready, or its network is not the pod's any more. */
function sandboxChanged(pod: Pod, state: PodState): { readonly changed: boolean; readonly attempt: number } {
  const [latest] = state.sandboxes;
  if (latest === undefined) return { changed: true, attempt: 0 };
  const next = latest.metadata.attempt + 1;
  const ready = state.sandboxes.filter((sandbox) => sandbox.state === 'READY').length;
  if (ready > 1 || latest.state !== 'READY') return { changed: true, attempt: next };
  if (!isHostNetwork(pod) && state.podIPs.length === 0) return { changed: true, attempt: next };
  return { changed: false, attempt: latest.metadata.attempt };
}

/** Pure: the same pod, state and verdicts always give the same actions. */
export function computePodActions(pod: Pod, state: PodState, verdicts: ProbeVerdicts, resized: ResizeRestarts = never): PodActions {
  const { changed, attempt } = sandboxChanged(pod, state);
  const actions: PodActions = {
    killPod: changed,
    createSandbox: changed,
    attempt,
    toKill: [],
    initToStart: [],
    toStart: [],
    ephemeralToStart: [],
  };
  if (changed) fromTheBeginning(pod, state, actions);
  else continuing(pod, state, verdicts, resized, actions);
  return actions;
}

function fromTheBeginning(pod: Pod, state: PodState, actions: PodActions): void {
  const { containers = [], initContainers = [] } = pod.spec ?? {};
  if (!restartsOnFailure(pod) && actions.attempt !== 0 && state.containers.length > 0) {
    actions.createSandbox = false;
    return;
  }
  const toStart = [...containers.keys()].filter((index) => {
    const container = containers[index] as Container;
    return !(restartPolicyOf(pod, container) === 'OnFailure' && succeeded(state.latest(container.name)));
  });
  if (toStart.length === 0 && containers.some(({ name }) => state.latest(name) !== undefined)) {
    actions.createSandbox = false;
    return;
  }
  if (initContainers.length > 0) actions.initToStart.push(0);
  else actions.toStart = toStart;
}

function continuing(pod: Pod, state: PodState, verdicts: ProbeVerdicts, resized: ResizeRestarts, actions: PodActions): void {
  for (const [index, container] of (pod.spec?.ephemeralContainers ?? []).entries()) {
    if (state.latest(container.name) === undefined) actions.ephemeralToStart.push(index);
  }
  const initialized = initActions(pod, state, verdicts, resized, actions);
  if (actions.killPod || !initialized) return;
  let kept = 0;
  for (const [index, container] of (pod.spec?.containers ?? []).entries()) {
    const placed: PlacedContainer = { kind: 'regular', index, container };
    const status = state.latest(container.name);
    if (status?.state !== 'RUNNING') {
      if (!shouldRun(pod, container, status)) continue;
      actions.toStart.push(index);
      if (status?.state === 'UNKNOWN')
        actions.toKill.push({
          id: status.id,
          placed,
          message: 'Container is in "unknown" state, try killing it before restart',
          reason: 'Unknown',
        });
      continue;
    }
    const kill = killVerdict(container, status, verdicts, resized);
    if (kill === undefined) {
      kept += 1;
      continue;
    }
    const restart = kill.reason === 'Changed' || kill.reason === 'Resize' || restartPolicyOf(pod, container) !== 'Never';
    actions.toKill.push({
      id: status.id,
      placed,
      message: `Container ${container.name} ${kill.what}${restart && kill.reason !== 'Resize' ? ', will be restarted' : ''}`,
      reason: kill.reason,
    });
    if (restart) actions.toStart.push(index);
  }
  if (kept === 0 && actions.toStart.length === 0) {
    actions.killPod = true;
    actions.initToStart = []; // sidecars must not keep the pod alive
  }
}

function killVerdict(
  container: AnyContainer,
  status: ContainerStatus,
  verdicts: ProbeVerdicts,
  resized: ResizeRestarts,
): { readonly what: string; readonly reason: KillReason } | undefined {
  if (isChanged(container, status)) return { what: 'definition changed', reason: 'Changed' };
  if (container.livenessProbe && verdicts.liveness(status.id) === false) return { what: 'failed liveness probe', reason: 'LivenessProbe' };
  if (container.startupProbe && verdicts.startup(status.id) === false) return { what: 'failed startup probe', reason: 'StartupProbe' };
  if (resized(status.id)) return { what: 'resize requires restart', reason: 'Resize' };
  return undefined;
}

/**
 * The init containers: one after the other, sidecars stay. Looked at from the last to the first, since those that are done may have been
 * removed from the runtime: the latest that is known tells how far the pod has come. Returns whether the regular containers may run.
 */
function initActions(pod: Pod, state: PodState, verdicts: ProbeVerdicts, resized: ResizeRestarts, actions: PodActions): boolean {
  const { initContainers = [], containers = [] } = pod.spec ?? {};
  if (initContainers.length === 0) return true;
  // a regular container that was made in this sandbox proves it, also when the init containers' remains are gone
  let initialized = containers.some(({ name }) => {
    const status = state.latest(name);
    return status !== undefined && status.state !== 'EXITED' && status.state !== 'UNKNOWN';
  });
  let passed = initialized;
  for (let index = initContainers.length - 1; index >= 0; index -= 1) {
    const container = initContainers[index] as Container;
    const status = state.latest(container.name);
    const sidecar = isSidecar(container);
    if (status === undefined) {
      if (passed && sidecar) actions.initToStart.unshift(index);
      continue;
    }
    if (passed && !sidecar) continue;
    const done = () => {
      if (index === initContainers.length - 1) initialized = true;
      else if (!passed) actions.initToStart.unshift(index + 1);
    };
    const again = (message?: string, reason: KillReason = 'Changed') => {
      if (message !== undefined)
        actions.toKill.push({
          id: status.id,
          placed: { kind: 'init', index, container },
          message: `Init container ${container.name} ${message}`,
          reason,
        });
      actions.initToStart.unshift(index);
    };
    if (status.state === 'CREATED') again();
    else if (status.state === 'RUNNING') {
      if (sidecar) runningSidecar(container, status, verdicts, resized, done, again);
    } else if (sidecar) again(status.state === 'UNKNOWN' ? 'is in "unknown" state, try killing it before restart' : undefined, 'Unknown');
    else if (status.state === 'EXITED' && succeeded(status)) done();
    else {
      if (!restartsAfter(pod, container, status.exitCode ?? 1)) {
        actions.killPod = true;
        actions.initToStart = [];
        return false;
      }
      again(status.state === 'UNKNOWN' ? 'is in "unknown" state, try killing it before restart' : undefined, 'Unknown');
    }
    passed = true;
  }
  if (!passed) actions.initToStart.unshift(0);
  return initialized;
}

function runningSidecar(
  container: Container,
  status: ContainerStatus,
  verdicts: ProbeVerdicts,
  resized: ResizeRestarts,
  done: () => void,
  again: (message?: string, reason?: KillReason) => void,
): void {
  if (container.startupProbe) {
    const started = verdicts.startup(status.id);
    if (started === false) again('failed startup probe', 'StartupProbe');
    if (started !== true) return;
  }
  done();
  if (isChanged(container, status)) again('definition changed', 'Changed');
  else if (container.livenessProbe && verdicts.liveness(status.id) === false) again('failed liveness probe', 'LivenessProbe');
  else if (resized(status.id)) again('resize requires restart', 'Resize');
}
