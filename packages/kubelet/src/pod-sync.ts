import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Container, EphemeralContainer } from '@oarlock/api/types/core-v1';
import type { PodSandboxConfig } from '@oarlock/spi/runtime';
import { startContainer } from './container-start.ts';
import { stopContainer } from './container-stop.ts';
import { computePodActions, shouldRun, type PodActions } from './pod-actions.ts';
import { sandboxConfig } from './pod-config.ts';
import { createSandbox, stopPod } from './pod-sandbox.ts';
import { allContainers, isSidecar, type ContainerKind, type PlacedContainer } from './pods.ts';
import type { PodRecord } from './pod-record.ts';
import type { RuntimeListener } from './runtime-hub.ts';
import type { SyncPass } from './sync-pass.ts';
import { VolumeFailures } from './volumes/volume-manager.ts';

const none = { startup: () => undefined, readiness: () => undefined, liveness: () => undefined } as const;
const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
/** How long a failed sandbox waits for its next try, and how often the spec is looked at when nothing happens: milliseconds. */
const sandboxRetryMs = 5_000;

export const verdictsOf = ({ probes }: PodRecord) => probes ?? none;

/** Makes the pod's volumes ready. Returns whether they are; why not is told by events. */
export async function prepareVolumes(pass: SyncPass): Promise<boolean> {
  const { record } = pass;
  const { node, pod, runtime, volumes } = record;
  if (runtime?.hollow !== false) return true;
  const pending = node.volumes.pending(pod, volumes);
  if (pending.length === 0) return true;
  try {
    await pass.step('mount volumes', (call) => node.volumes.mount(pod, volumes, call), { 'oarlock.volumes': pending.length });
    return true;
  } catch (error) {
    pass.signal.throwIfAborted();
    if (!(error instanceof VolumeFailures)) throw error;
    for (const { volume, message } of error.failures)
      record.event('Warning', 'FailedMount', `MountVolume.SetUp failed for volume "${volume}" : ${message}`);
    return false;
  }
}

/** Brings what runs to what the spec says, as far as that goes now. */
export async function applySpec(pass: SyncPass, listener: RuntimeListener): Promise<void> {
  const { record, signal } = pass;
  const { state } = record;
  const actions = computePodActions(record.pod, state, verdictsOf(record), (id) => record.resize?.restarts(id) === true);
  if (actions.killPod) {
    if (actions.createSandbox && state.sandboxes.length > 0)
      record.event('Normal', 'SandboxChanged', 'Pod sandbox changed, it will be killed and re-created.');
    if (!state.isEmpty) await stopPod(record, { signal });
    if (actions.createSandbox) await purgeInitContainers(pass);
  } else {
    for (const { id, placed, message, reason } of actions.toKill) {
      const status = state.container(id);
      if (status) await stopContainer(record, { status, placed, message, reason, signal });
    }
  }
  if (actions.killPod && !actions.createSandbox) return;
  await start(pass, actions, listener);
}

async function start(pass: SyncPass, actions: PodActions, listener: RuntimeListener): Promise<void> {
  const { record } = pass;
  const { pod, state, node, runtime } = record;
  const { initContainers = [], containers = [], ephemeralContainers = [] } = pod.spec ?? {};
  if (!runtime || (!actions.createSandbox && actions.toStart.length + actions.initToStart.length + actions.ephemeralToStart.length === 0))
    return;
  if (!runtime.hollow) {
    await mkdir(node.paths.pod(record.uid), { recursive: true, mode: 0o750 });
    for (const { container } of allContainers(pod))
      await mkdir(join(node.paths.podLogs(pod), container.name), { recursive: true, mode: 0o755 });
  }
  let sandbox: PodSandboxConfig;
  if (actions.createSandbox) {
    if (!(await prepareClaims(pass))) return;
    try {
      sandbox = await createSandbox(pass, actions.attempt, listener);
    } catch (error) {
      pass.signal.throwIfAborted();
      record.event('Warning', 'FailedCreatePodSandBox', `Failed to create pod sandbox: ${messageOf(error)}`);
      pass.fail(error);
      pass.retryIn(sandboxRetryMs);
      return;
    }
  } else
    sandbox = await sandboxConfig({ pod, node, runtime, handler: record.handler }, state.readySandbox?.metadata.attempt ?? 0, undefined);
  const sandboxId = state.readySandbox?.id;
  if (sandboxId === undefined) return;
  const run = (kind: ContainerKind, index: number, container: Container | EphemeralContainer | undefined) => {
    if (!container) return Promise.resolve(false);
    const placed: PlacedContainer = { kind, index, container };
    return startContainer(pass, placed, sandboxId, sandbox);
  };
  for (const index of actions.ephemeralToStart) await run('ephemeral', index, ephemeralContainers[index]);
  for (const index of actions.initToStart) {
    const container = initContainers[index];
    const started = await run('init', index, container);
    // what follows waits for it, unless it is a sidecar that was running before
    if (!started && container && !isSidecar(container)) return;
  }
  for (const index of actions.toStart) await run('regular', index, containers[index]);
}

/** Has drivers prepare the pod's claims. Returns whether they are; why not is told by an event. */
async function prepareClaims(pass: SyncPass): Promise<boolean> {
  const { record } = pass;
  const { node, pod } = record;
  if (!pod.spec?.resourceClaims?.length && !pod.status?.extendedResourceClaimStatus) return true;
  try {
    if (!node.claims) throw new Error('this node takes no DRA drivers: pluginRegistryDir is not set');
    await pass.step('prepare claims', ({ signal }) => node.claims?.prepare(pod, signal) ?? Promise.resolve());
    return true;
  } catch (error) {
    pass.signal.throwIfAborted();
    record.event('Warning', 'FailedPrepareDynamicResources', `Failed to prepare dynamic resources: ${messageOf(error)}`);
    pass.fail(error);
    pass.retryIn(sandboxRetryMs);
    return false;
  }
}

/** In a new sandbox initialization begins anew: what was left of it in the old one must not count. */
async function purgeInitContainers({ record, signal }: SyncPass): Promise<void> {
  const { runtime, state, pod } = record;
  for (const { name } of pod.spec?.initContainers ?? []) {
    for (const { id } of state.attempts(name)) {
      await runtime?.hub.driver.removeContainer(id, { signal });
      state.removeContainer(id);
    }
  }
}

/** A failure of a container that is not to be started any more says nothing. */
export function dropOldFailures(record: PodRecord): void {
  for (const name of record.failures.keys()) {
    const container = [...(record.pod.spec?.initContainers ?? []), ...(record.pod.spec?.containers ?? [])].find((one) => one.name === name);
    if (!container || !shouldRun(record.pod, container, record.state.latest(name))) record.clearFailure(name);
  }
}
