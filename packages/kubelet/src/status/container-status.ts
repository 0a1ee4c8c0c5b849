import { formatTime } from '@oarlock/api/values/time';
import type {
  Container,
  ContainerState,
  ContainerStatus as ApiStatus,
  EphemeralContainer,
  Pod,
  PodStatus,
  ResourceRequirements,
  ResourceStatus,
} from '@oarlock/api/types/core-v1';
import type { ContainerStatus } from '@oarlock/spi/runtime';
import { wantsRecursiveReadOnly } from '../kuberuntime/container-mounts.ts';
import { restartCountOf } from '../runtime/labels.ts';
import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import { containerStatusesOf, containerStatusFinder, shouldContainerBeStarted, type ContainerType } from '../pod-util/pods.ts';
import type { ProbeResults } from '../probes/probe-result.ts';
import type { RuntimePodStatus } from '../runtime/runtime-pod-status.ts';

/** The reason and message of a container that could not be started, for the container's waiting state. */
export interface StartFailure {
  readonly reason: string;
  readonly message: string;
}

/** The inputs of container statuses besides the pod. */
export interface ContainerStatusInputs {
  /** The previously computed status, or the status in the API. */
  readonly before: PodStatus | undefined;
  readonly state: RuntimePodStatus;
  readonly probeResults: ProbeResults & { readiness(id: string): boolean | undefined };
  /** The start failures of containers, keyed by container name. */
  readonly failures: ReadonlyMap<string, StartFailure>;
  /** Termination messages, keyed by container id. */
  readonly messages: ReadonlyMap<string, string>;
  /** The actual resources of running containers that differ from the allocated resources; undefined if the pod was never resized. */
  readonly resize?:
    | { actualResources(id: string): ResourceRequirements | undefined; readonly actualPodResources: ResourceRequirements | undefined }
    | undefined;
  /** True if the runtime also makes the mounts below a read-only mount read-only (KEP-3857). */
  readonly recursiveReadOnly?: boolean | undefined;
  /** Returns the health of a container's devices (KEP-4680). */
  healthOf?(container: string): readonly ResourceStatus[];
  /** The scheme of container ids, for example `containerd` in `containerd://<id>`. */
  readonly runtimeName: string;
  /** True if no container will be started again, regardless of the restartPolicy. */
  readonly ended: boolean;
}

type AnyContainer = Container | EphemeralContainer;
/** Texts of runtimes are bounded: the API server rejects a pod whose status is too large, and the end of the pod would not be reported. */
const maxReason = 1024;
const maxMessage = 8192;
const waitingFor = (reason: string, message?: string): ContainerState => ({
  waiting: { reason, ...(message !== undefined && message !== '' && { message: message.slice(0, maxMessage) }) },
});
const containerStatusUnknown = { reason: 'ContainerStatusUnknown', exitCode: 137 };

/** Returns true if the container runs and its startup probe, if it has one, has succeeded. */
function isStarted(container: AnyContainer, status: ContainerStatus, probeResults: ProbeResults): boolean {
  if (status.state !== 'RUNNING') return false;
  return container.startupProbe === undefined || probeResults.startup(status.id) === true;
}

function isReady(
  kind: ContainerType,
  {
    container,
    status,
    containerStatusInputs: { probeResults },
  }: { readonly container: AnyContainer; readonly status: ContainerStatus; readonly containerStatusInputs: ContainerStatusInputs },
): boolean {
  if (kind === 'init' && !isRestartableInitContainer(container)) return status.state === 'EXITED' && status.exitCode === 0;
  if (!isStarted(container, status, probeResults)) return false;
  return container.readinessProbe === undefined || probeResults.readiness(status.id) === true;
}

function stateOf(status: ContainerStatus, { runtimeName, messages }: ContainerStatusInputs): ContainerState {
  switch (status.state) {
    case 'RUNNING':
      return { running: { ...(status.startedAt !== undefined && { startedAt: formatTime(status.startedAt) }) } };
    case 'CREATED':
      return waitingFor('ContainerCreating');
    case 'EXITED': {
      // the runtime's message of a failed start, then the container's termination message
      const message = [status.message ?? '', messages.get(status.id) ?? ''].filter((part) => part !== '').join(': ');
      return {
        terminated: {
          exitCode: status.exitCode ?? 137,
          reason: (status.reason ?? (status.exitCode === 0 ? 'Completed' : 'Error')).slice(0, maxReason),
          ...(message !== '' && { message: message.slice(0, maxMessage) }),
          startedAt: formatTime(status.startedAt ?? 0),
          finishedAt: formatTime(status.finishedAt ?? 0),
          containerID: `${runtimeName}://${status.id}`,
        },
      };
    }
    case 'UNKNOWN':
      return {
        terminated: {
          ...containerStatusUnknown,
          message: 'The container could not be located when the pod was terminated',
          containerID: `${runtimeName}://${status.id}`,
        },
      };
  }
}

/** Returns the status of a container's newest attempt; the previous attempt is its lastState. */
function convertContainerStatus(
  kind: ContainerType,
  container: AnyContainer,
  {
    status,
    previous,
    inputs,
  }: { readonly status: ContainerStatus; readonly previous: ContainerStatus | undefined; readonly inputs: ContainerStatusInputs },
): ApiStatus {
  const lastState = previous ? stateOf(previous, inputs) : {};
  const mounts = container.volumeMounts ?? [];
  const devices = inputs.healthOf?.(container.name) ?? [];
  const resources = inputs.resize?.actualResources(status.id) ?? container.resources;
  return {
    name: container.name,
    state: stateOf(status, inputs),
    lastState,
    ready: isReady(kind, { container, status, containerStatusInputs: inputs }),
    restartCount: restartCountOf(status.annotations),
    image: status.image,
    imageID: status.imageRef,
    containerID: `${inputs.runtimeName}://${status.id}`,
    started: isStarted(container, status, inputs.probeResults),
    ...(container.resources?.requests && { allocatedResources: container.resources.requests }),
    ...(status.user && { user: { linux: status.user } }),
    ...(resources && Object.keys(resources).length > 0 && { resources }),
    ...(devices.length > 0 && { allocatedResourcesStatus: devices }),
    ...(mounts.length > 0 && {
      volumeMounts: mounts.map(({ name, mountPath, readOnly, ...mount }) => ({
        name,
        mountPath,
        ...(readOnly && {
          readOnly,
          recursiveReadOnly: inputs.recursiveReadOnly === true && wantsRecursiveReadOnly(mount) ? 'Enabled' : 'Disabled',
        }),
      })),
    }),
  };
}

/** Returns the status of a container that the runtime does not have, because it was not created yet or was removed. */
function missingContainerStatus(
  pod: Pod,
  container: AnyContainer,
  { old, waiting, ended }: { readonly old: ApiStatus | undefined; readonly waiting: ContainerState; readonly ended: boolean },
): ApiStatus {
  if (old?.state?.terminated) return old;
  const base: ApiStatus = {
    name: container.name,
    image: container.image ?? '',
    imageID: '',
    ready: false,
    started: false,
    restartCount: old?.restartCount ?? 0,
    state: waiting,
    lastState: old?.lastState ?? {},
    ...(old?.state?.running === undefined && old?.containerID !== undefined && { containerID: old.containerID }),
  };
  if (old?.state?.running === undefined) return base;
  // the container ran, and its exit was not observed: the status must not look as if it never ran
  const terminated = {
    ...containerStatusUnknown,
    message: 'The container could not be located when the pod was deleted.  The container used to be Running',
  };
  if (ended) return { ...base, image: old.image, imageID: old.imageID, state: { terminated } };
  // a status without an id already counts the coming start
  if (old.lastState?.terminated) return { ...base, ...(old.containerID !== undefined && { containerID: old.containerID }) };
  return { ...base, lastState: { terminated }, restartCount: base.restartCount + 1 };
}

/** The containers of one kind and what their statuses are computed from. */
export interface ContainerStatusRequest {
  readonly kind: ContainerType;
  readonly containers: readonly AnyContainer[];
  readonly inputs: ContainerStatusInputs;
}

/** Returns the statuses of the containers in one of the pod's container lists, in the order of the list. */
export function generateContainerStatuses(pod: Pod, { kind, containers, inputs }: ContainerStatusRequest): readonly ApiStatus[] {
  const { state, failures, ended } = inputs;
  const hasInit = (pod.spec?.initContainers ?? []).length > 0;
  const waiting = waitingFor(hasInit ? 'PodInitializing' : 'ContainerCreating');
  const reported = containerStatusFinder(containerStatusesOf(inputs.before, kind));
  return containers.map((container) => {
    const [latest, previous] = state.containerAttempts(container.name);
    const old = reported(container.name);
    const status = latest
      ? convertContainerStatus(kind, container, { status: latest, previous, inputs })
      : missingContainerStatus(pod, container, { old, waiting, ended });
    // earlier attempts may have been removed from the runtime: keep what was reported of them
    const kept =
      latest && !previous && status.restartCount > 0 && old?.lastState?.terminated ? { ...status, lastState: old.lastState } : status;
    const failure = failures.get(container.name);
    if (
      failure === undefined ||
      ended ||
      (kind === 'init' && latest?.state === 'EXITED' && latest.exitCode === 0) ||
      !shouldContainerBeStarted(pod, container, latest)
    )
      return kept;
    return { ...kept, state: waitingFor(failure.reason, failure.message), ...(kept.state?.terminated && { lastState: kept.state }) };
  });
}
