import { formatTime } from '@oarlock/api/time';
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
import { isRecursive } from './container-mounts.ts';
import { restartCountOf } from './labels.ts';
import { isSidecar, statusesOf, statusOf, type ContainerKind } from './pods.ts';
import { shouldRun, type ProbeVerdicts } from './pod-actions.ts';
import type { PodState } from './pod-state.ts';

/** Why a container could not be started: what its waiting state shows until it is. */
export interface StartFailure {
  readonly reason: string;
  readonly message: string;
}

/** What statuses are made from, besides the pod. */
export interface StatusSources {
  /** What was computed last, or what the API has. */
  readonly before: PodStatus | undefined;
  readonly state: PodState;
  readonly verdicts: ProbeVerdicts & { readiness(id: string): boolean | undefined };
  /** By container name. */
  readonly failures: ReadonlyMap<string, StartFailure>;
  /** Of containers that have ended, by id. */
  readonly messages: ReadonlyMap<string, string>;
  /** Says what a running container has that is not yet what its pod was given. */
  readonly resize?: { has(id: string): ResourceRequirements | undefined; readonly hasWhole: ResourceRequirements | undefined } | undefined;
  /** The runtime makes mounts below read-only ones read-only as well (KEP-3857). */
  readonly recursiveReadOnly?: boolean | undefined;
  /** How the devices of a container are. */
  healthOf?(container: string): readonly ResourceStatus[];
  /** `containerd`: the scheme of container ids. */
  readonly runtimeName: string;
  /** The pod will not be brought to life again, whatever its restart policy. */
  readonly ended: boolean;
}

type AnyContainer = Container | EphemeralContainer;
const waitingFor = (reason: string, message?: string): ContainerState => ({
  waiting: { reason, ...(message !== undefined && message !== '' && { message }) },
});
const lost = { reason: 'ContainerStatusUnknown', exitCode: 137 };

/** A container that a regular or sidecar container is taken to be started as soon as it runs, unless it has a startup probe. */
function isStarted(container: AnyContainer, status: ContainerStatus, verdicts: ProbeVerdicts): boolean {
  if (status.state !== 'RUNNING') return false;
  return container.startupProbe === undefined || verdicts.startup(status.id) === true;
}

function isReady(kind: ContainerKind, container: AnyContainer, status: ContainerStatus, { verdicts }: StatusSources): boolean {
  if (kind === 'init' && !isSidecar(container)) return status.state === 'EXITED' && status.exitCode === 0;
  if (!isStarted(container, status, verdicts)) return false;
  return container.readinessProbe === undefined || verdicts.readiness(status.id) === true;
}

function stateOf(status: ContainerStatus, { runtimeName, messages }: StatusSources): ContainerState {
  switch (status.state) {
    case 'RUNNING':
      return { running: { ...(status.startedAt !== undefined && { startedAt: formatTime(status.startedAt) }) } };
    case 'CREATED':
      return waitingFor('ContainerCreating');
    case 'EXITED': {
      // what the runtime says of a start that failed, then what the container left to be said
      const message = [status.message ?? '', messages.get(status.id) ?? ''].filter((part) => part !== '').join(': ');
      return {
        terminated: {
          exitCode: status.exitCode ?? 137,
          reason: status.reason ?? (status.exitCode === 0 ? 'Completed' : 'Error'),
          ...(message !== '' && { message }),
          startedAt: formatTime(status.startedAt ?? 0),
          finishedAt: formatTime(status.finishedAt ?? 0),
          containerID: `${runtimeName}://${status.id}`,
        },
      };
    }
    case 'UNKNOWN':
      return {
        terminated: {
          ...lost,
          message: 'The container could not be located when the pod was terminated',
          containerID: `${runtimeName}://${status.id}`,
        },
      };
  }
}

/** The status of one container: of its newest attempt, with the one before as its last state. */
function seen(
  kind: ContainerKind,
  container: AnyContainer,
  status: ContainerStatus,
  previous: ContainerStatus | undefined,
  sources: StatusSources,
): ApiStatus {
  const lastState = previous ? stateOf(previous, sources) : {};
  const mounts = container.volumeMounts ?? [];
  const devices = sources.healthOf?.(container.name) ?? [];
  const resources = sources.resize?.has(status.id) ?? container.resources;
  return {
    name: container.name,
    state: stateOf(status, sources),
    lastState,
    ready: isReady(kind, container, status, sources),
    restartCount: restartCountOf(status.annotations),
    image: status.image,
    imageID: status.imageRef,
    containerID: `${sources.runtimeName}://${status.id}`,
    started: isStarted(container, status, sources.verdicts),
    ...(container.resources?.requests && { allocatedResources: container.resources.requests }),
    ...(status.user && { user: { linux: status.user } }),
    ...(resources && Object.keys(resources).length > 0 && { resources }),
    ...(devices.length > 0 && { allocatedResourcesStatus: devices }),
    ...(mounts.length > 0 && {
      volumeMounts: mounts.map(({ name, mountPath, readOnly, ...mount }) => ({
        name,
        mountPath,
        ...(readOnly && { readOnly, recursiveReadOnly: sources.recursiveReadOnly === true && isRecursive(mount) ? 'Enabled' : 'Disabled' }),
      })),
    }),
  };
}

/** The status of a container of which the runtime knows nothing. */
function unseen(pod: Pod, container: AnyContainer, old: ApiStatus | undefined, waiting: ContainerState, ended: boolean): ApiStatus {
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
  // It ran, and nobody saw how it ended: that must not read as if it never had.
  const terminated = {
    ...lost,
    message: 'The container could not be located when the pod was deleted.  The container used to be Running',
  };
  if (ended) return { ...base, image: old.image, imageID: old.imageID, state: { terminated } };
  // a status without an id counts the start that is to come already
  if (old.lastState?.terminated) return { ...base, ...(old.containerID !== undefined && { containerID: old.containerID }) };
  return { ...base, lastState: { terminated }, restartCount: base.restartCount + 1 };
}

/** Statuses of one of the pod's lists of containers, in its order. */
export function containerStatuses(
  pod: Pod,
  kind: ContainerKind,
  containers: readonly AnyContainer[],
  sources: StatusSources,
): readonly ApiStatus[] {
  const { state, failures, ended } = sources;
  const hasInit = (pod.spec?.initContainers ?? []).length > 0;
  const waiting = waitingFor(hasInit ? 'PodInitializing' : 'ContainerCreating');
  return containers.map((container) => {
    const [latest, previous] = state.attempts(container.name);
    const old = statusOf(statusesOf(sources.before, kind), container.name);
    const status = latest ? seen(kind, container, latest, previous, sources) : unseen(pod, container, old, waiting, ended);
    // remains of earlier attempts may have been removed meanwhile: what was reported of them stays
    const kept =
      latest && !previous && status.restartCount > 0 && old?.lastState?.terminated ? { ...status, lastState: old.lastState } : status;
    const failure = failures.get(container.name);
    if (
      failure === undefined ||
      ended ||
      (kind === 'init' && latest?.state === 'EXITED' && latest.exitCode === 0) ||
      !shouldRun(pod, container, latest)
    )
      return kept;
    return { ...kept, state: waitingFor(failure.reason, failure.message), ...(kept.state?.terminated && { lastState: kept.state }) };
  });
}
