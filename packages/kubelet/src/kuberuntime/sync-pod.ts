import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Container, EphemeralContainer } from '@oarlock/api/types/core-v1';
import type { PodSandboxConfig } from '@oarlock/spi/runtime';
import { startContainer } from './container-start.ts';
import { killContainer } from './internal/container-kill.ts';
import { computePodActions, type PodActions } from './pod-actions.ts';
import { generatePodSandboxConfig } from './internal/cri-config.ts';
import { createSandbox, killPod } from './pod-sandbox.ts';
import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import { errorText } from '@oarlock/primitives/error-text';
import { allContainers, type ContainerType, type SpecContainer, shouldContainerBeStarted } from '../pod-util/pods.ts';
import type { PodRecord } from '../pod/pod-record.ts';
import type { PodLifecycleListener } from '../runtime/pleg.ts';
import type { SyncPass } from '../pod/sync-pass.ts';
import { attachLimitRejection, type AttachLimitRejection } from '../volumes/attach-limit.ts';
import { VolumeMountErrors } from '../volumes/volume-manager.ts';

const none = { startup: () => undefined, readiness: () => undefined, liveness: () => undefined } as const;
/** The retry delay after a sandbox or ResourceClaim failed. Milliseconds. */
const sandboxRetryMs = 5_000;

export const probeResultsOf = ({ probes }: PodRecord) => probes ?? none;

/**
 * Mounts the pod's volumes. Returns true if all volumes are mounted; records an event for each volume that failed. Returns why the pod is rejected if
 * the node has reached the attachment limit of a volume.
 */
export async function mountVolumes(pass: SyncPass): Promise<boolean | AttachLimitRejection> {
  const { record } = pass;
  const { node, pod, runtime, volumes } = record;
  if (runtime?.hollow !== false) return true;
  const pending = node.volumeManager.unmountedVolumes(pod, volumes);
  if (pending.length === 0) return true;
  try {
    await pass.step('mount volumes', (call) => node.volumeManager.mount(pod, volumes, call), { 'oarlock.volumes': pending.length });
    return true;
  } catch (error) {
    pass.signal.throwIfAborted();
    if (!(error instanceof VolumeMountErrors)) throw error;
    for (const { volume, operation, message } of error.failures)
      record.event('Warning', 'FailedMount', `MountVolume.${operation} failed for volume "${volume}" : ${message}`);
    return attachLimitRejection(error.failures) ?? false;
  }
}

/** Brings the pod's containers as close to the desired state as one pass can (SyncPod of kuberuntime upstream). */
export async function syncPod(pass: SyncPass, listener: PodLifecycleListener): Promise<void> {
  const { record, signal } = pass;
  const { state } = record;
  const actions = computePodActions(record.pod, {
    state,
    probeResults: probeResultsOf(record),
    requiresRestart: (id) => record.resize?.requiresRestart(id) === true,
  });
  if (actions.killPod) {
    if (actions.createSandbox && state.sandboxes.length > 0)
      record.event('Normal', 'SandboxChanged', 'Pod sandbox changed, it will be killed and re-created.');
    if (!state.isEmpty) await killPod(record, { signal });
    if (actions.createSandbox) await removeInitContainers(pass);
  } else {
    for (const { id, specContainer, message, reason } of actions.containersToKill) {
      const status = state.container(id);
      if (status) await killContainer(record, { status, specContainer, message, reason, signal });
    }
  }
  if (actions.killPod && !actions.createSandbox) return;
  await startPod(pass, actions, listener);
}

async function startPod(pass: SyncPass, actions: PodActions, listener: PodLifecycleListener): Promise<void> {
  const { record } = pass;
  const { pod, state, node, runtime } = record;
  const { initContainers = [], containers = [], ephemeralContainers = [] } = pod.spec ?? {};
  if (
    !runtime ||
    (!actions.createSandbox &&
      actions.containersToStart.length + actions.initContainersToStart.length + actions.ephemeralContainersToStart.length === 0)
  )
    return;
  if (!runtime.hollow) {
    await mkdir(node.paths.pod(record.uid), { recursive: true, mode: 0o750 });
    const logs = [...allContainers(pod)].map(({ container }) => join(node.paths.podLogs(pod), container.name));
    await Promise.all(logs.map((directory) => mkdir(directory, { recursive: true, mode: 0o755 })));
  }
  let sandbox: PodSandboxConfig;
  if (actions.createSandbox) {
    node.metrics.pods.podStarted();
    if (!(await prepareResourceClaims(pass))) return;
    try {
      sandbox = await createSandbox(pass, actions.attempt, listener);
    } catch (error) {
      pass.signal.throwIfAborted();
      node.metrics.pods.podFailed();
      record.event('Warning', 'FailedCreatePodSandBox', `Failed to create pod sandbox: ${errorText(error)}`);
      pass.fail(error);
      pass.retryIn(sandboxRetryMs);
      return;
    }
  } else
    sandbox = await generatePodSandboxConfig(
      { pod, node, runtime, handler: record.handler },
      state.readySandbox?.metadata.attempt ?? 0,
      undefined,
    );
  const sandboxId = state.readySandbox?.id;
  if (sandboxId === undefined) return;
  const run = (kind: ContainerType, index: number, container: Container | EphemeralContainer | undefined) => {
    if (!container) return Promise.resolve(false);
    const specContainer: SpecContainer = { kind, index, container };
    return startContainer(pass, { specContainer, sandboxId, sandbox });
  };
  for (const index of actions.ephemeralContainersToStart) await run('ephemeral', index, ephemeralContainers[index]);
  for (const index of actions.initContainersToStart) {
    const container = initContainers[index];
    const started = await run('init', index, container);
    // later containers wait for it, unless it is a sidecar that ran before
    if (!started && container && !isRestartableInitContainer(container)) return;
  }
  for (const index of actions.containersToStart) await run('regular', index, containers[index]);
}

/** Prepares the pod's ResourceClaims. Records a failure as an event and returns false. */
async function prepareResourceClaims(pass: SyncPass): Promise<boolean> {
  const { record } = pass;
  const { node, pod } = record;
  if (!pod.spec?.resourceClaims?.length && !pod.status?.extendedResourceClaimStatus) return true;
  try {
    if (!node.draManager) throw new Error('this node takes no DRA drivers: pluginRegistryDir is not set');
    await pass.step('prepare claims', ({ signal }) => node.draManager?.prepareResources(pod, signal) ?? Promise.resolve());
    return true;
  } catch (error) {
    pass.signal.throwIfAborted();
    record.event('Warning', 'FailedPrepareDynamicResources', `Failed to prepare dynamic resources: ${errorText(error)}`);
    pass.fail(error);
    pass.retryIn(sandboxRetryMs);
    return false;
  }
}

/** Removes the init containers of the previous sandbox, because initialization starts over in a new sandbox. */
async function removeInitContainers({ record, signal }: SyncPass): Promise<void> {
  const { runtime, state, pod } = record;
  for (const { name } of pod.spec?.initContainers ?? []) {
    for (const { id } of state.containerAttempts(name)) {
      await runtime?.pleg.driver.removeContainer(id, { signal });
      state.removeContainer(id);
    }
  }
}

/** Drops the start failures of containers that will not be started any more. */
export function clearObsoleteStartFailures(record: PodRecord): void {
  for (const name of record.startFailures.keys()) {
    const container = [...(record.pod.spec?.initContainers ?? []), ...(record.pod.spec?.containers ?? [])].find((one) => one.name === name);
    if (!container || !shouldContainerBeStarted(record.pod, container, record.state.latestContainer(name))) record.clearStartFailure(name);
  }
}
