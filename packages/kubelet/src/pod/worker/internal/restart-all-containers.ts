import { hasRestartAllContainersRule, matchingRestartRule } from '@oarlock/api/component-helpers/container-restart';
import type { ContainerStatus as ApiStatus, Pod, PodStatus } from '@oarlock/api/types/core-v1';
import { isInCrashLoopBackOff } from '../../../kuberuntime/container-start.ts';
import { allContainersRestartingCondition } from '../../../status/pod-conditions.ts';
import type { PodRecord } from '../../pod-record.ts';
import type { PodStatusReporter } from './pod-status-reporter.ts';
import type { RuntimePodStatus } from '../../../runtime/runtime-pod-status.ts';
import { allContainers, fieldPath, type SpecContainer } from '../../../pod-util/pods.ts';
import type { SyncPass } from '../../sync-pass.ts';

/** Returns the containers whose exit matches a restart rule with the action RestartAllContainers. */
function containersRequestingRestart(pod: Pod, state: RuntimePodStatus): readonly SpecContainer[] {
  return [...allContainers(pod)].filter(({ kind, container }) => {
    const status = kind === 'ephemeral' ? undefined : state.latestContainer(container.name);
    return status?.state === 'EXITED' && matchingRestartRule(container, status.exitCode ?? 0) === 'RestartAllContainers';
  });
}

/** Returns true if a container requested the restart of all containers, or if an earlier such restart is not complete (KEP-5532). */
export function shouldRestartAllContainers({ pod, state, status }: PodRecord): boolean {
  if (!hasRestartAllContainersRule(pod.spec)) return false;
  const inProgress = (status ?? pod.status)?.conditions?.some(
    ({ type, status: is }) => type === allContainersRestartingCondition && is === 'True',
  );
  return inProgress === true || containersRequestingRestart(pod, state).length > 0;
}

/** Terminates all containers and reports the pod's status. Returns true if the containers can be started again now. */
export async function restartAllContainers(pass: SyncPass, reporter: PodStatusReporter): Promise<boolean> {
  const { record } = pass;
  const reportStatus = () => reporter.report(pass, { lazy: false });
  reportStatus();
  const done = await killAndRemoveAllContainers(pass, reportStatus);
  if (done && record.status) record.status = statusAfterRestart(record.pod, record.status);
  record.restartingAllContainers = !done;
  reportStatus();
  return done;
}

/**
 * Kills all containers without grace period and hooks, and removes the containers that will be started again. The sandbox, addresses and volumes
 * stay. The requesting containers are removed last, so that a restarted kubelet still finds them and completes the restart. Calls `onAllExited`
 * when all containers have exited. Returns false while a requesting container is in backoff; the pass then has a retry time.
 */
async function killAndRemoveAllContainers(pass: SyncPass, onAllExited: () => void): Promise<boolean> {
  const { record, signal } = pass;
  const { pod, state, runtime } = record;
  if (!runtime) return false;
  const { driver } = runtime.pleg;
  const specContainers = new Map([...allContainers(pod)].map((specContainer) => [specContainer.container.name, specContainer]));
  await Promise.all(
    state.containers.map(async ({ id, state: now, metadata: { name } }) => {
      if (now === 'EXITED') return;
      const specContainer = specContainers.get(name);
      record.event('Normal', 'Killing', `Stopping container ${name}`, specContainer && fieldPath(specContainer));
      await driver.stopContainer(id, 0, { signal });
      const status = await runtime.pleg.containerStatus(id, signal);
      if (status) state.setContainer(status);
      else state.removeContainer(id);
    }),
  );
  onAllExited();
  const requesting = containersRequestingRestart(pod, state);
  if (requesting.filter((specContainer) => isInCrashLoopBackOff(pass, specContainer)).length > 0) return false;
  const requestingNames = new Set(requesting.map(({ container }) => container.name));
  const restarted = state.containers.filter(
    ({ metadata: { name } }) => specContainers.has(name) && specContainers.get(name)?.kind !== 'ephemeral',
  );
  for (const { id } of [...restarted].sort(
    (a, b) => Number(requestingNames.has(a.metadata.name)) - Number(requestingNames.has(b.metadata.name)),
  )) {
    await driver.removeContainer(id, { signal });
    state.removeContainer(id);
  }
  for (const name of requestingNames) record.clearStartFailure(name);
  record.pruneTerminationMessages((id) => state.container(id) !== undefined);
  return true;
}

/** Returns the pod status after all containers were removed: containers are waiting, and the restart counts include the coming start. */
function statusAfterRestart(pod: Pod, status: PodStatus): PodStatus {
  const reason = (pod.spec?.initContainers ?? []).length > 0 ? 'PodInitializing' : 'ContainerCreating';
  const waitingStatus = ({ name, image, imageID, state, lastState, restartCount, containerID }: ApiStatus): ApiStatus => ({
    name,
    image,
    imageID,
    ready: false,
    started: false,
    state: { waiting: { reason } },
    lastState: state?.terminated ? { terminated: state.terminated } : (lastState ?? {}),
    restartCount: containerID === undefined ? restartCount : restartCount + 1,
  });
  return {
    ...status,
    ...(status.initContainerStatuses && { initContainerStatuses: status.initContainerStatuses.map(waitingStatus) }),
    ...(status.containerStatuses && { containerStatuses: status.containerStatuses.map(waitingStatus) }),
  };
}
