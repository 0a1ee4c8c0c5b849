import { restartsAfterExit } from '@oarlock/api/component-helpers/container-restart';
import type { Container, EphemeralContainer, Pod } from '@oarlock/api/types/core-v1';
import type { ContainerStatus } from '@oarlock/spi/runtime';
import { containerHash, runtimeLabels } from '../runtime/labels.ts';
import type { ProbeResults } from '../probes/probe-result.ts';
import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import { isHostNetwork, restartPolicyOf, shouldContainerBeStarted, type SpecContainer } from '../pod-util/pods.ts';
import type { RuntimePodStatus } from '../runtime/runtime-pod-status.ts';

export type ContainerKillReason = 'Resize' | 'StartupProbe' | 'LivenessProbe' | 'Unknown' | 'Changed' | 'FailedPostStart' | 'Pod';
export interface ContainerToKill {
  readonly id: string;
  readonly specContainer: SpecContainer;
  readonly message: string;
  readonly reason: ContainerKillReason;
}

/** The actions that bring a pod from its actual state to its desired state. */
export interface PodActions {
  /** True if all containers and the sandbox must be stopped first. */
  killPod: boolean;
  createSandbox: boolean;
  /** The attempt number of the sandbox to create. */
  attempt: number;
  containersToKill: ContainerToKill[];
  /** The indexes of the init containers that may start now, in start order. */
  initContainersToStart: number[];
  containersToStart: number[];
  ephemeralContainersToStart: number[];
}

/** Returns true if the container must restart to get its allocated resources. */
export type RequiresRestartForResize = (id: string) => boolean;
const never: RequiresRestartForResize = () => false;

type AnyContainer = Container | EphemeralContainer;

const restartsOnFailure = (pod: Pod) => pod.spec?.restartPolicy !== 'Never';
const isChanged = (container: AnyContainer, status: ContainerStatus) =>
  status.annotations[runtimeLabels.hash] !== undefined && status.annotations[runtimeLabels.hash] !== containerHash(container);
const succeeded = (status: ContainerStatus | undefined) => status?.state === 'EXITED' && (status.exitCode ?? 0) === 0;

/**
 * Returns whether the pod needs a new sandbox, and the sandbox's attempt number. A pod keeps its sandbox if exactly one sandbox is ready and has
 * an address.
 */
function sandboxChanged(pod: Pod, state: RuntimePodStatus): { readonly changed: boolean; readonly attempt: number } {
  const [latest] = state.sandboxes;
  if (latest === undefined) return { changed: true, attempt: 0 };
  const next = latest.metadata.attempt + 1;
  const ready = state.sandboxes.filter((sandbox) => sandbox.state === 'READY').length;
  if (ready > 1 || latest.state !== 'READY') return { changed: true, attempt: next };
  if (!isHostNetwork(pod) && state.podIPs.length === 0) return { changed: true, attempt: next };
  return { changed: false, attempt: latest.metadata.attempt };
}

/** The runtime status and the probe results of a pod, and which changes require a restart. */
export interface PodActionInputs {
  readonly state: RuntimePodStatus;
  readonly probeResults: ProbeResults;
  readonly requiresRestart?: RequiresRestartForResize | undefined;
}

/** Computes the actions from the pod, its runtime status and its probe results. Pure. */
export function computePodActions(pod: Pod, { state, probeResults, requiresRestart = never }: PodActionInputs): PodActions {
  const { changed, attempt } = sandboxChanged(pod, state);
  const actions: PodActions = {
    killPod: changed,
    createSandbox: changed,
    attempt,
    containersToKill: [],
    initContainersToStart: [],
    containersToStart: [],
    ephemeralContainersToStart: [],
  };
  if (changed) computeActionsForNewSandbox(pod, state, actions);
  else computeActionsForRunningSandbox(pod, state, { probeResults, requiresRestart, actions });
  return actions;
}

function computeActionsForNewSandbox(pod: Pod, state: RuntimePodStatus, actions: PodActions): void {
  const { containers = [], initContainers = [] } = pod.spec ?? {};
  if (!restartsOnFailure(pod) && actions.attempt !== 0 && state.containers.length > 0) {
    actions.createSandbox = false;
    return;
  }
  const toStart = [...containers.keys()].filter((index) => {
    const container = containers[index] as Container;
    return !(restartPolicyOf(pod, container) === 'OnFailure' && succeeded(state.latestContainer(container.name)));
  });
  if (toStart.length === 0 && containers.some(({ name }) => state.latestContainer(name) !== undefined)) {
    actions.createSandbox = false;
    return;
  }
  if (initContainers.length > 0) actions.initContainersToStart.push(0);
  else actions.containersToStart = toStart;
}

function computeActionsForRunningSandbox(
  pod: Pod,
  state: RuntimePodStatus,
  {
    probeResults,
    requiresRestart,
    actions,
  }: { readonly probeResults: ProbeResults; readonly requiresRestart: RequiresRestartForResize; readonly actions: PodActions },
): void {
  for (const [index, container] of (pod.spec?.ephemeralContainers ?? []).entries()) {
    if (state.latestContainer(container.name) === undefined) actions.ephemeralContainersToStart.push(index);
  }
  const initialized = computeInitContainerActions(pod, state, { probeResults, requiresRestart, actions });
  if (actions.killPod || !initialized) return;
  let kept = 0;
  for (const [index, container] of (pod.spec?.containers ?? []).entries()) {
    const specContainer: SpecContainer = { kind: 'regular', index, container };
    const status = state.latestContainer(container.name);
    if (status?.state !== 'RUNNING') {
      if (!shouldContainerBeStarted(pod, container, status)) continue;
      actions.containersToStart.push(index);
      if (status?.state === 'UNKNOWN')
        actions.containersToKill.push({
          id: status.id,
          specContainer,
          message: 'Container is in "unknown" state, try killing it before restart',
          reason: 'Unknown',
        });
      continue;
    }
    const kill = killReasonOf(container, { status, probeResults, requiresRestart });
    if (kill === undefined) {
      kept += 1;
      continue;
    }
    const restart = kill.reason === 'Changed' || kill.reason === 'Resize' || restartPolicyOf(pod, container) !== 'Never';
    actions.containersToKill.push({
      id: status.id,
      specContainer,
      message: `Container ${container.name} ${kill.description}${restart && kill.reason !== 'Resize' ? ', will be restarted' : ''}`,
      reason: kill.reason,
    });
    if (restart) actions.containersToStart.push(index);
  }
  if (kept === 0 && actions.containersToStart.length === 0) {
    actions.killPod = true;
    actions.initContainersToStart = []; // sidecars do not keep the pod alive
  }
}

function killReasonOf(
  container: AnyContainer,
  {
    status,
    probeResults,
    requiresRestart,
  }: { readonly status: ContainerStatus; readonly probeResults: ProbeResults; readonly requiresRestart: RequiresRestartForResize },
): { readonly description: string; readonly reason: ContainerKillReason } | undefined {
  if (isChanged(container, status)) return { description: 'definition changed', reason: 'Changed' };
  if (container.livenessProbe && probeResults.liveness(status.id) === false)
    return { description: 'failed liveness probe', reason: 'LivenessProbe' };
  if (container.startupProbe && probeResults.startup(status.id) === false)
    return { description: 'failed startup probe', reason: 'StartupProbe' };
  if (requiresRestart(status.id)) return { description: 'resize requires restart', reason: 'Resize' };
  return undefined;
}

/**
 * Computes the actions for init containers, which run one after the other; sidecars keep running. Iterates from the last init container to the
 * first: completed init containers may have been removed from the runtime, so the last one that the runtime knows shows the progress.
 * Returns true if the regular containers may run.
 */
function computeInitContainerActions(
  pod: Pod,
  state: RuntimePodStatus,
  {
    probeResults,
    requiresRestart,
    actions,
  }: { readonly probeResults: ProbeResults; readonly requiresRestart: RequiresRestartForResize; readonly actions: PodActions },
): boolean {
  const { initContainers = [], containers = [] } = pod.spec ?? {};
  if (initContainers.length === 0) return true;
  // a regular container of this sandbox proves that initialization completed, even if the init containers are removed
  let initialized = containers.some(({ name }) => {
    const status = state.latestContainer(name);
    return status !== undefined && status.state !== 'EXITED' && status.state !== 'UNKNOWN';
  });
  let passed = initialized;
  for (let index = initContainers.length - 1; index >= 0; index -= 1) {
    const container = initContainers[index] as Container;
    const status = state.latestContainer(container.name);
    const sidecar = isRestartableInitContainer(container);
    if (status === undefined) {
      if (passed && sidecar) actions.initContainersToStart.unshift(index);
      continue;
    }
    if (passed && !sidecar) continue;
    const onCompleted = () => {
      if (index === initContainers.length - 1) initialized = true;
      else if (!passed) actions.initContainersToStart.unshift(index + 1);
    };
    const restart = (message?: string, reason: ContainerKillReason = 'Changed') => {
      if (message !== undefined)
        actions.containersToKill.push({
          id: status.id,
          specContainer: { kind: 'init', index, container },
          message: `Init container ${container.name} ${message}`,
          reason,
        });
      actions.initContainersToStart.unshift(index);
    };
    if (status.state === 'CREATED') restart();
    else if (status.state === 'RUNNING') {
      if (sidecar) computeRunningSidecarActions(container, status, { probeResults, requiresRestart, onCompleted, restart });
    } else if (sidecar) restart(status.state === 'UNKNOWN' ? 'is in "unknown" state, try killing it before restart' : undefined, 'Unknown');
    else if (status.state === 'EXITED' && succeeded(status)) onCompleted();
    else {
      if (!restartsAfterExit(pod.spec?.restartPolicy, container, status.exitCode ?? 1)) {
        actions.killPod = true;
        actions.initContainersToStart = [];
        return false;
      }
      restart(status.state === 'UNKNOWN' ? 'is in "unknown" state, try killing it before restart' : undefined, 'Unknown');
    }
    passed = true;
  }
  if (!passed) actions.initContainersToStart.unshift(0);
  return initialized;
}

function computeRunningSidecarActions(
  container: Container,
  status: ContainerStatus,
  {
    probeResults,
    requiresRestart,
    onCompleted,
    restart,
  }: {
    readonly probeResults: ProbeResults;
    readonly requiresRestart: RequiresRestartForResize;
    readonly onCompleted: () => void;
    readonly restart: (message?: string, reason?: ContainerKillReason) => void;
  },
): void {
  if (container.startupProbe) {
    const started = probeResults.startup(status.id);
    if (started === false) restart('failed startup probe', 'StartupProbe');
    if (started !== true) return;
  }
  onCompleted();
  if (isChanged(container, status)) restart('definition changed', 'Changed');
  else if (container.livenessProbe && probeResults.liveness(status.id) === false) restart('failed liveness probe', 'LivenessProbe');
  else if (requiresRestart(status.id)) restart('resize requires restart', 'Resize');
}
