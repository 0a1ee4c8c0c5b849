import type { ContainerStatus, Pod } from '@oarlock/api/types/core-v1';
import { hasRestartAllContainersRule, restartsAfterExit } from '@oarlock/api/component-helpers/container-restart';
import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import { restartPolicyOf, containerStatusFinder } from '../pod-util/pods.ts';

export type PodPhase = 'Pending' | 'Running' | 'Succeeded' | 'Failed';

/** Statuses of the init and regular containers, and whether the pod has ended. */
export interface ContainerStatuses {
  readonly init: readonly ContainerStatus[];
  readonly regular: readonly ContainerStatus[];
  readonly ended: boolean;
}

/** Computes the pod phase from the statuses of init and regular containers. `ended` means that no container will be started again. */
export function computePodPhase(pod: Pod, { init, regular, ended }: ContainerStatuses): PodPhase {
  const { initContainers = [], containers = [] } = pod.spec ?? {};
  const restartsAll = hasRestartAllContainersRule(pod.spec);
  const [initStatus, regularStatus] = [containerStatusFinder(init), containerStatusFinder(regular)];
  let [initPending, sidecarPending, unknown, running, waiting, stopped, succeeded] = [0, 0, 0, 0, 0, 0, 0];
  for (const container of initContainers) {
    const status = initStatus(container.name);
    const { state, lastState } = status ?? {};
    if (isRestartableInitContainer(container)) {
      if (state?.running) {
        if (status?.started !== true) sidecarPending += 1;
        running += 1;
      } else if (state?.waiting) {
        if (!lastState?.terminated) {
          sidecarPending += 1;
          waiting += 1;
        }
      } else if (!state?.terminated) {
        sidecarPending += 1;
        unknown += 1;
      }
      continue;
    }
    const terminated = state?.terminated ?? (state?.waiting && !restartsAll ? lastState?.terminated : undefined);
    if (!terminated) initPending += 1;
    else if (terminated.exitCode !== 0 && (ended || !restartsAfterExit(pod.spec?.restartPolicy, container, terminated.exitCode)))
      return 'Failed';
    else if (terminated.exitCode !== 0) initPending += 1;
  }
  let willRestart = false;
  for (const container of containers) {
    const { state, lastState } = regularStatus(container.name) ?? {};
    if (state?.running) running += 1;
    else if (state?.terminated) {
      stopped += 1;
      if (state.terminated.exitCode === 0) succeeded += 1;
      if (restartsAfterExit(pod.spec?.restartPolicy, container, state.terminated.exitCode)) willRestart = true;
    } else if (state?.waiting) {
      if (lastState?.terminated) {
        // a container that waits after a restart of all containers is going to start, whatever its restart policy
        if (restartPolicyOf(pod, container) === 'Never' && restartsAll) waiting += 1;
        else stopped += 1;
        willRestart ||= restartPolicyOf(pod, container) !== 'Never';
      } else waiting += 1;
    } else unknown += 1;
  }
  const anyStarted = regular.some(({ state, lastState }) => state?.running ?? state?.terminated ?? lastState?.terminated);
  if (initPending > 0 || (sidecarPending > 0 && !anyStarted) || waiting > 0) return ended ? 'Failed' : 'Pending';
  if (running > 0 && unknown === 0) return 'Running';
  if (running === 0 && stopped > 0 && unknown === 0) {
    if (!ended && willRestart) return 'Running';
    return stopped === succeeded ? 'Succeeded' : 'Failed';
  }
  return ended ? 'Failed' : 'Pending';
}
