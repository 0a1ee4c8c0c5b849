import type { ContainerStatus as ApiStatus, Pod, PodStatus } from '@oarlock/api/types/core-v1';
import { backsOff } from './container-start.ts';
import { allContainersRestarting } from './pod-conditions.ts';
import type { PodRecord } from './pod-record.ts';
import type { PodReport } from './pod-report.ts';
import type { PodState } from './pod-state.ts';
import { allContainers, couldRestartAll, fieldPath, restartRuleOf, type PlacedContainer } from './pods.ts';
import type { SyncPass } from './sync-pass.ts';

/** Containers that ended as a rule of theirs says with which all are to be started anew. */
function askers(pod: Pod, state: PodState): readonly PlacedContainer[] {
  return [...allContainers(pod)].filter(({ kind, container }) => {
    const status = kind === 'ephemeral' ? undefined : state.latest(container.name);
    return status?.state === 'EXITED' && restartRuleOf(container, status.exitCode ?? 0) === 'RestartAllContainers';
  });
}

/** Whether all containers are to be started anew: one has asked for it, or what was begun is not done (KEP-5532). */
export function restartsAll({ pod, state, status }: PodRecord): boolean {
  if (!couldRestartAll(pod)) return false;
  const begun = (status ?? pod.status)?.conditions?.some(({ type, status: is }) => type === allContainersRestarting && is === 'True');
  return begun === true || askers(pod, state).length > 0;
}

/** Ends everything that was started, and tells. Returns whether it can be started anew now. */
export async function restartAll(pass: SyncPass, report: PodReport): Promise<boolean> {
  const { record } = pass;
  const tell = () => report.tell(pass, { lazy: false });
  tell();
  const done = await endAll(pass, tell);
  if (done && record.status) record.status = statusAnew(record.pod, record.status);
  record.restarting = !done;
  tell();
  return done;
}

/**
 * Ends all containers at once, without grace or hooks, and removes those that will be started anew; sandbox, addresses and volumes stay.
 * Those that asked go last: as long as they are there, a kubelet that begins knows what to do. `told` is called when all have ended. Returns
 * whether it is done; else the pass knows when to try again, since who asks too often has to wait.
 */
async function endAll(pass: SyncPass, told: () => void): Promise<boolean> {
  const { record, signal } = pass;
  const { pod, state, runtime } = record;
  if (!runtime) return false;
  const { driver } = runtime.hub;
  const places = new Map([...allContainers(pod)].map((placed) => [placed.container.name, placed]));
  await Promise.all(
    state.containers.map(async ({ id, state: now, metadata: { name } }) => {
      if (now === 'EXITED') return;
      const placed = places.get(name);
      record.event('Normal', 'Killing', `Stopping container ${name}`, placed && fieldPath(placed));
      await driver.stopContainer(id, 0, { signal });
      const status = await runtime.hub.containerStatus(id, signal);
      if (status) state.setContainer(status);
      else state.removeContainer(id);
    }),
  );
  told();
  const asking = askers(pod, state);
  if (asking.filter((placed) => backsOff(pass, placed)).length > 0) return false;
  const last = new Set(asking.map(({ container }) => container.name));
  const again = state.containers.filter(({ metadata: { name } }) => places.has(name) && places.get(name)?.kind !== 'ephemeral');
  for (const { id } of [...again].sort((a, b) => Number(last.has(a.metadata.name)) - Number(last.has(b.metadata.name)))) {
    await driver.removeContainer(id, { signal });
    state.removeContainer(id);
  }
  for (const name of last) record.clearFailure(name);
  record.dropMessages((id) => state.container(id) !== undefined);
  return true;
}

/** The status of a pod whose containers were removed to be started anew: they wait, and count the start that is to come. */
function statusAnew(pod: Pod, status: PodStatus): PodStatus {
  const reason = (pod.spec?.initContainers ?? []).length > 0 ? 'PodInitializing' : 'ContainerCreating';
  const anew = ({ name, image, imageID, state, lastState, restartCount, containerID }: ApiStatus): ApiStatus => ({
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
    ...(status.initContainerStatuses && { initContainerStatuses: status.initContainerStatuses.map(anew) }),
    ...(status.containerStatuses && { containerStatuses: status.containerStatuses.map(anew) }),
  };
}
