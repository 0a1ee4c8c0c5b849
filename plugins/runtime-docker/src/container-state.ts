import type { Container, ContainerState, ContainerStatus, Mount, PodSandbox } from '@oarlock/spi/runtime';
import { isNever, type EngineContainer, type ListedContainer } from './engine-shapes.ts';
import { containerMetadata, createdLabel, imageNames, logPathLabel, sandboxLabel, sandboxMetadata, split, type Labels } from './names.ts';

/** One whose start failed keeps the state `created`, with an exit code. */
export function stateOf({ Status, ExitCode }: Pick<EngineContainer['State'], 'Status' | 'ExitCode'>): ContainerState {
  if (Status === 'created') return ExitCode === 0 ? 'CREATED' : 'EXITED';
  return Status === 'running' || Status === 'paused' || Status === 'restarting' ? 'RUNNING' : 'EXITED';
}

/** To the millisecond, which the engine's list is not. */
const createdAt = (labels: Labels, otherwise: number) => (labels[createdLabel] === undefined ? otherwise : Number(labels[createdLabel]));

export function container(id: string, name: string, labels: Labels, created: number, state: ContainerState): Container {
  return {
    id,
    sandboxId: labels[sandboxLabel] ?? '',
    metadata: containerMetadata(name),
    ...imageNames(labels),
    state,
    createdAt: createdAt(labels, created),
    ...split(labels),
  };
}

export function sandbox(id: string, name: string, labels: Labels, created: number, ready: boolean): PodSandbox {
  return {
    id,
    metadata: sandboxMetadata(name),
    state: ready ? 'READY' : 'NOTREADY',
    createdAt: createdAt(labels, created),
    ...split(labels),
  };
}

export const listedName = ({ Names }: ListedContainer): string => Names[0] ?? '';

/** `starved`: the kernel was heard to have ended it for want of memory. */
export function containerStatus(found: EngineContainer, starved: boolean): ContainerStatus {
  const { State, Config } = found;
  const labels = Config.Labels ?? {};
  const state = stateOf(State);
  return {
    ...container(found.Id, found.Name, labels, Date.parse(found.Created), state),
    ...(!isNever(State.StartedAt) && { startedAt: Date.parse(State.StartedAt) }),
    ...(state === 'EXITED' && ended(found, starved)),
    mounts: found.Mounts.filter(({ Type }) => Type === 'bind').map(mount),
    logPath: labels[logPathLabel] ?? '',
  };
}

function ended(
  { State, Created }: EngineContainer,
  starved: boolean,
): Pick<ContainerStatus, 'finishedAt' | 'exitCode' | 'reason' | 'message'> {
  const { ExitCode, Error: message, FinishedAt, Status } = State;
  const reason =
    Status === 'created' ? 'ContainerCannotRun' : starved || State.OOMKilled ? 'OOMKilled' : ExitCode === 0 ? 'Completed' : 'Error';
  return {
    finishedAt: Date.parse(isNever(FinishedAt) ? Created : FinishedAt),
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
