import type { Container, ContainerState, ContainerStatus, Mount, PodSandbox } from '@oarlock/spi/runtime';
import { isZeroTime, type EngineContainer, type ListedContainer } from '../../engine/engine-types.ts';
import {
  containerMetadata,
  createdLabel,
  imageNames,
  logPathLabel,
  sandboxLabel,
  sandboxMetadata,
  splitLabels,
  type Labels,
} from '../../engine/names-and-labels.ts';

/** Converts the state of a container to CRI. After a failed start, the engine keeps the state `created`, but with an exit code. */
export function stateOf({ Status, ExitCode }: Pick<EngineContainer['State'], 'Status' | 'ExitCode'>): ContainerState {
  if (Status === 'created') return ExitCode === 0 ? 'CREATED' : 'EXITED';
  return Status === 'running' || Status === 'paused' || Status === 'restarting' ? 'RUNNING' : 'EXITED';
}

/** Returns the creation time from Oarlock's label, which has milliseconds; the engine's list has only seconds. */
const createdAt = (labels: Labels, fallback: number) => (labels[createdLabel] === undefined ? fallback : Number(labels[createdLabel]));

export function container(
  id: string,
  name: string,
  { labels, created, state }: { readonly labels: Labels; readonly created: number; readonly state: ContainerState },
): Container {
  return {
    id,
    sandboxId: labels[sandboxLabel] ?? '',
    metadata: containerMetadata(name),
    ...imageNames(labels),
    state,
    createdAt: createdAt(labels, created),
    ...splitLabels(labels),
  };
}

export function sandbox(
  id: string,
  name: string,
  { labels, created, ready }: { readonly labels: Labels; readonly created: number; readonly ready: boolean },
): PodSandbox {
  return {
    id,
    metadata: sandboxMetadata(name),
    state: ready ? 'READY' : 'NOTREADY',
    createdAt: createdAt(labels, created),
    ...splitLabels(labels),
  };
}

export const listedName = ({ Names }: ListedContainer): string => Names[0] ?? '';

/** Converts an inspected container to a CRI status. `outOfMemory`: the engine reported an OOM event for the container. */
export function containerStatus(found: EngineContainer, outOfMemory: boolean): ContainerStatus {
  const { State, Config } = found;
  const labels = Config.Labels ?? {};
  const state = stateOf(State);
  return {
    ...container(found.Id, found.Name, { labels, created: Date.parse(found.Created), state }),
    ...(!isZeroTime(State.StartedAt) && { startedAt: Date.parse(State.StartedAt) }),
    ...(state === 'EXITED' && exitStatus(found, outOfMemory)),
    mounts: found.Mounts.filter(({ Type }) => Type === 'bind').map(mount),
    logPath: labels[logPathLabel] ?? '',
  };
}

function exitStatus(
  { State, Created }: EngineContainer,
  outOfMemory: boolean,
): Pick<ContainerStatus, 'finishedAt' | 'exitCode' | 'reason' | 'message'> {
  const { ExitCode, Error: message, FinishedAt, Status } = State;
  const reason =
    Status === 'created' ? 'ContainerCannotRun' : outOfMemory || State.OOMKilled ? 'OOMKilled' : ExitCode === 0 ? 'Completed' : 'Error';
  return {
    finishedAt: Date.parse(isZeroTime(FinishedAt) ? Created : FinishedAt),
    exitCode: ExitCode,
    reason,
    ...(message !== '' && { message }),
  };
}

const propagations: Readonly<Record<string, NonNullable<Mount['propagation']>>> = {
  rslave: 'HOST_TO_CONTAINER',
  rshared: 'BIDIRECTIONAL',
};

function mount({ Source, Destination, RW, Propagation }: EngineContainer['Mounts'][number]): Mount {
  return { containerPath: Destination, hostPath: Source, readonly: !RW, propagation: propagations[Propagation] ?? 'PRIVATE' };
}
