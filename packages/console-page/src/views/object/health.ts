import type { KubeObject } from '../../api/client.ts';
import type { HealthState } from '../../components/health-state.ts';
import type { Pod, Workload } from './workload-kinds.ts';

export interface HealthText {
  readonly health: HealthState;
  readonly label: string;
}

/** Returns the state of a pod as kubectl prints it. */
export function podHealth({ metadata, status = {} }: Pod): HealthText {
  if (metadata.deletionTimestamp !== undefined) return { health: 'pending', label: 'Terminating' };
  const all = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
  const waiting = all
    .map(({ state }) => state?.waiting?.reason)
    .find((reason) => reason !== undefined && !/Creating|Initializing/.test(reason));
  if (waiting !== undefined) return { health: 'error', label: waiting };
  const { phase = 'Unknown' } = status;
  if (phase === 'Succeeded') return { health: 'ok', label: 'Completed' };
  if (phase === 'Failed') return { health: 'error', label: status.reason ?? 'Failed' };
  if (phase !== 'Running') return { health: phase === 'Pending' ? 'pending' : 'unknown', label: phase };
  const failed = status.containerStatuses?.find(({ state }) => (state?.terminated?.exitCode ?? 0) !== 0);
  if (failed !== undefined) return { health: 'error', label: failed.state?.terminated?.reason ?? 'Error' };
  const isReady = (status.containerStatuses ?? []).every(({ ready }) => ready === true);
  return isReady ? { health: 'ok', label: 'Running' } : { health: 'warning', label: 'Running, not ready' };
}

/** Returns why no node can run a pod, if the scheduler reports it. */
export function unschedulableReason({ kind, status = {} }: Pod): string | undefined {
  if (kind !== 'Pod') return undefined;
  return status.conditions?.find(
    ({ type, status: value, reason }) => type === 'PodScheduled' && value === 'False' && reason === 'Unschedulable',
  )?.message;
}

/** The numbers of a rollout. */
export interface Rollout {
  readonly wanted: number;
  readonly updated: number;
  readonly ready: number;
  readonly isComplete: boolean;
  /** Why the rollout fails, if a condition reports it. */
  readonly failure?: string;
}

/** Returns the progress of a rollout; undefined for kinds without one. */
export function rolloutOf({ kind, metadata, spec = {}, status = {} }: Workload): Rollout | undefined {
  if (kind === 'DaemonSet') {
    const { desiredNumberScheduled: wanted = 0, updatedNumberScheduled: updated = 0, numberReady: ready = 0 } = status;
    return {
      wanted,
      updated,
      ready,
      isComplete: isObserved(metadata.generation, status.observedGeneration) && updated >= wanted && ready >= wanted,
    };
  }
  if (kind !== 'Deployment' && kind !== 'StatefulSet' && kind !== 'ReplicaSet') return undefined;
  const { replicas: wanted = 1 } = spec;
  const { replicas = 0, readyReplicas: ready = 0, updatedReplicas = 0 } = status;
  const updated = kind === 'ReplicaSet' ? replicas : updatedReplicas;
  const failed = status.conditions?.find(
    ({ type, status: value }) => (type === 'Progressing' && value === 'False') || (type === 'ReplicaFailure' && value === 'True'),
  );
  return {
    wanted,
    updated,
    ready,
    isComplete: isObserved(metadata.generation, status.observedGeneration) && updated >= wanted && ready >= wanted && replicas === wanted,
    ...(failed && { failure: failed.message ?? failed.reason ?? failed.type }),
  };
}

const isObserved = (generation = 0, observed = 0): boolean => observed >= generation;

/** Returns the health of an object whose kind is known, otherwise from its conditions. */
export function healthOf(object: KubeObject): HealthText | undefined {
  if (object.kind === 'Pod') return podHealth(object as Pod);
  const workload = object as Workload;
  const rollout = rolloutOf(workload);
  if (rollout !== undefined) {
    const label = `${rollout.ready}/${rollout.wanted}`;
    if (rollout.failure !== undefined) return { health: 'error', label };
    return { health: rollout.isComplete ? 'ok' : 'pending', label };
  }
  if (object.kind === 'Job') {
    const isFailed = workload.status?.conditions?.some(({ type, status }) => type === 'Failed' && status === 'True') === true;
    const isDone = workload.status?.conditions?.some(({ type, status }) => type === 'Complete' && status === 'True') === true;
    return isFailed
      ? { health: 'error', label: 'Failed' }
      : isDone
        ? { health: 'ok', label: 'Complete' }
        : { health: 'pending', label: 'Running' };
  }
  const ready = workload.status?.conditions?.find(({ type }) => type === 'Ready' || type === 'Available' || type === 'Established');
  if (ready === undefined) return undefined;
  return { health: ready.status === 'True' ? 'ok' : 'error', label: `${ready.type}: ${ready.status}` };
}
