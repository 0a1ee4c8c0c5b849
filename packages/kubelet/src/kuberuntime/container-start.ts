import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Container, EphemeralContainer } from '@oarlock/api/types/core-v1';
import { RuntimeError, type ContainerConfig, type PodSandboxConfig } from '@oarlock/spi/runtime';
import { killContainer } from './internal/container-kill.ts';
import { ImageError, type ResolvedImage } from '../images/image-manager.ts';
import { containerHash, restartCountOf } from '../runtime/labels.ts';
import { runLifecycleHandler } from './internal/lifecycle-handlers.ts';
import { generateContainerConfig } from './internal/cri-config.ts';
import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import { errorText } from '@oarlock/primitives/error-text';
import { formatPod, fieldPath, isHostNetwork, containerStatusesOf, findContainerStatus, type SpecContainer } from '../pod-util/pods.ts';
import { formatDelay } from '../pod-util/restart-backoff.ts';
import { verifyRunAsNonRoot } from './internal/security-context.ts';
import type { PodRuntime } from '../pod/node-context.ts';
import type { RuntimePodStatus } from '../runtime/runtime-pod-status.ts';
import type { SyncPass } from '../pod/sync-pass.ts';
import { pullVolumeImages } from '../volumes/image-volume.ts';

/** The retry delay after errors that no later event resolves. Milliseconds. */
const retryMs = 10_000;
/** The number of attempts that are kept per container: the latest and the previous one. */
const keptAttempts = 2;

/** Returns true if the container's restart back-off has not expired. */
export function isInCrashLoopBackOff(pass: SyncPass, { container, kind }: SpecContainer): boolean {
  const { record } = pass;
  const { node, state, pod } = record;
  const latest = state.latestContainer(container.name);
  if (latest?.state !== 'EXITED') return false;
  // other resources reset the back-off
  const key = `${container.name} ${containerHash(container)} ${JSON.stringify(container.resources ?? {})}`;
  const now = node.clock.now();
  const since = latest.finishedAt ?? now;
  const wait = record.backoff.remaining(key, since, now);
  if (wait === 0) {
    record.backoff.next(key, since, now);
    return false;
  }
  const path = fieldPath({ kind, container });
  if (record.startFailures.get(container.name)?.reason !== 'CrashLoopBackOff')
    record.event('Warning', 'BackOff', `Back-off restarting failed container ${container.name} in pod ${formatPod(pod)}`, path);
  record.setStartFailure(container.name, {
    reason: 'CrashLoopBackOff',
    message: `back-off ${formatDelay(record.backoff.delay(key))} restarting failed container=${container.name} pod=${formatPod(pod)}`,
  });
  pass.retryIn(wait);
  return true;
}

function nextRestartCount({ record }: SyncPass, { container, kind }: SpecContainer): number {
  const latest = record.state.latestContainer(container.name);
  if (latest) return restartCountOf(latest.annotations) + 1;
  const reported = findContainerStatus(containerStatusesOf(record.status ?? record.pod.status, kind), container.name);
  if (reported?.containerID) return reported.restartCount + 1;
  return reported?.lastState?.terminated ? reported.restartCount : 0;
}

type EventRecorder = (type: 'Normal' | 'Warning', reason: string, message: string) => void;

/** A container to start, and the sandbox and runtime to start the container in. */
interface ContainerStart {
  readonly pass: SyncPass;
  readonly specContainer: SpecContainer;
  readonly runtime: PodRuntime;
  readonly sandboxId: string;
  readonly sandbox: PodSandboxConfig;
  readonly event: EventRecorder;
}

interface PulledImages {
  readonly image: ResolvedImage;
  /** The images of image volumes, keyed by volume name. */
  readonly mountedImages: ReadonlyMap<string, string>;
}

/** The error of a failed step of a container start, with the reason of the container's waiting state. */
class StartStepError extends Error {
  override readonly name = 'StartStepError';
  readonly reason: string;
  /** The delay before a retry, in milliseconds; undefined if a retry is useless until the pod or another object changes. */
  readonly retryMs: number | undefined;
  constructor(reason: string, cause: unknown, retry: number | undefined) {
    super(errorText(cause), { cause });
    this.reason = reason;
    this.retryMs = retry;
  }
}

/** The container to start, and the sandbox that it joins. */
export interface ContainerStartRequest {
  readonly specContainer: SpecContainer;
  readonly sandboxId: string;
  readonly sandbox: PodSandboxConfig;
}

/**
 * Starts one container: pulls its images, generates its config, creates and starts the container, runs the postStart hook. Returns true if
 * the container runs. A failure is recorded as an event and as the container's start failure, and schedules a retry of the pass.
 */
export async function startContainer(pass: SyncPass, { specContainer, sandboxId, sandbox }: ContainerStartRequest): Promise<boolean> {
  const { record } = pass;
  const { runtime } = record;
  if (!runtime || isInCrashLoopBackOff(pass, specContainer)) return false;
  record.node.metrics.pods.containerStarted(specContainer.kind);
  const path = fieldPath(specContainer);
  const event: EventRecorder = (type, reason, message) => record.event(type, reason, message, path);
  const start: ContainerStart = { pass, specContainer, runtime, sandboxId, sandbox, event };
  let id: string;
  try {
    const images = await pullImages(start);
    const config = await generateConfig(start, images);
    id = await createContainer(start, config, images.image);
    await runContainer(start, id);
  } catch (error) {
    if (!(error instanceof StartStepError)) throw error;
    recordStartFailure(start, error);
    return false;
  }
  await removeOldAttempts(pass, specContainer.container.name);
  return runPostStartHook(pass, specContainer, id);
}

function recordStartFailure(
  { pass, specContainer: { container, kind }, event }: ContainerStart,
  { reason, cause, retryMs: retry }: StartStepError,
): void {
  pass.signal.throwIfAborted();
  pass.record.node.metrics.pods.containerFailed(kind, reason);
  // as upstream: the runtime's message without the gRPC prefix
  const message = cause instanceof RuntimeError ? cause.runtimeMessage : errorText(cause);
  event('Warning', 'Failed', `Error: ${cause instanceof ImageError ? reason : message}`);
  pass.record.setStartFailure(container.name, { reason, message });
  pass.retryIn(retry);
  pass.fail(cause);
}

async function pullImages({ pass, specContainer: { container }, runtime, sandbox, event }: ContainerStart): Promise<PulledImages> {
  const { record, signal } = pass;
  const { pod, node } = record;
  const request = { sandbox, signal, spanContext: pass.spanContext, event };
  const from = node.clock.monotonic();
  try {
    const image = await runtime.imageManager.ensureImageExists({ ...request, pod, container });
    return { image, mountedImages: await pullVolumeImages(pod, { container, images: runtime.imageManager, request }) };
  } catch (error) {
    throw error instanceof ImageError
      ? new StartStepError(error.reason, error, error.retryMs)
      : new StartStepError('ErrImagePull', error, retryMs);
  } finally {
    record.imagePullMs += node.clock.monotonic() - from;
  }
}

async function generateConfig(start: ContainerStart, { image, mountedImages }: PulledImages): Promise<ContainerConfig> {
  const { pass, specContainer, runtime, event } = start;
  const { record, signal } = pass;
  const { pod, node, state } = record;
  const { container } = specContainer;
  const restartCount = nextRestartCount(pass, specContainer);
  try {
    verifyRunAsNonRoot(pod, container, image.image);
    return await generateContainerConfig({
      pod,
      container,
      restartCount,
      node,
      runtime,
      handler: record.handler,
      podIPs: isHostNetwork(pod) ? node.addresses : state.podIPs,
      volumes: record.volumes,
      mountedImages,
      devices: await node.deviceManager?.containerDevices(pod, container, signal),
      cdiDevices: node.draManager?.cdiDevicesOf(pod, container) ?? [],
      image,
      targetId: targetContainerId(container, state),
      event,
    });
  } catch (error) {
    throw new StartStepError('CreateContainerConfigError', error, retryMs);
  }
}

/** Returns the id of the container whose process namespace an ephemeral container shares; undefined if the container does not share one. */
function targetContainerId(container: Container | EphemeralContainer, state: RuntimePodStatus): string | undefined {
  return 'targetContainerName' in container && container.targetContainerName
    ? state.latestContainer(container.targetContainerName)?.id
    : undefined;
}

async function createContainer(start: ContainerStart, config: ContainerConfig, image: ResolvedImage): Promise<string> {
  const { pass, specContainer, runtime, sandboxId, sandbox, event } = start;
  const { state, node } = pass.record;
  const { container } = specContainer;
  let id: string;
  try {
    id = await pass.step('CreateContainer', (call) => runtime.pleg.driver.createContainer(sandboxId, config, sandbox, call), {
      'oarlock.container': container.name,
    });
  } catch (error) {
    throw new StartStepError('CreateContainerError', error, retryMs);
  }
  event('Normal', 'Created', 'Container created');
  state.setContainer({
    id,
    sandboxId,
    metadata: config.metadata,
    image: container.image ?? '',
    imageRef: image.reference,
    state: 'CREATED',
    createdAt: node.clock.now(),
    labels: config.labels,
    annotations: config.annotations,
    mounts: config.mounts,
    logPath: '',
  });
  return id;
}

/** Starts a created container and reads the container's status from the runtime. */
async function runContainer({ pass, specContainer, runtime, event }: ContainerStart, id: string): Promise<void> {
  const { record } = pass;
  const { state, node } = record;
  const { container, kind } = specContainer;
  // a terminating pod must not abort the start: the container would be reported as failed to start
  const { signal } = node;
  try {
    await pass.step('StartContainer', ({ spanContext }) => runtime.pleg.driver.startContainer(id, { signal, spanContext }), {
      'oarlock.container': container.name,
    });
  } catch (error) {
    const failed = await runtime.pleg.containerStatus(id, signal);
    if (failed) state.setContainer(failed);
    throw new StartStepError('RunContainerError', error, retryMs);
  }
  const status = await runtime.pleg.containerStatus(id, signal);
  if (status === undefined) throw new Error(`container ${id} disappeared right after its start`);
  state.setContainer(status);
  record.clearStartFailure(container.name);
  event('Normal', 'Started', 'Container started');
  // no event follows for a state that is already known
  if (status.state !== 'RUNNING' || (kind === 'init' && isRestartableInitContainer(container))) pass.retryIn(0);
}

async function runPostStartHook(pass: SyncPass, specContainer: SpecContainer, id: string): Promise<boolean> {
  const { record, signal } = pass;
  const { runtime, node, state } = record;
  const { container } = specContainer;
  const hook = container.lifecycle?.postStart;
  const status = state.container(id);
  if (!hook || !runtime || status?.state !== 'RUNNING') return true;
  try {
    await pass.step('postStart', (call) =>
      runLifecycleHandler(hook, {
        driver: runtime.pleg.driver,
        container,
        containerId: id,
        podIP: state.podIPs[0] ?? node.addresses[0] ?? '',
        clock: node.clock,
        signal: call.signal,
        timeoutMs: 0,
      }),
    );
    return true;
  } catch (error) {
    signal.throwIfAborted();
    record.event('Warning', 'FailedPostStartHook', 'PostStartHook failed', fieldPath(specContainer));
    await killContainer(record, { status, specContainer, reason: 'FailedPostStart', message: 'FailedPostStartHook', signal });
    record.setStartFailure(container.name, { reason: 'PostStartHookError', message: errorText(error) });
    pass.retryIn(0);
    return false;
  }
}

/** Removes old attempts of a container and their logs. */
async function removeOldAttempts({ record, signal }: SyncPass, name: string): Promise<void> {
  const { runtime, state, node, pod } = record;
  for (const { id, metadata, state: now } of state.containerAttempts(name).slice(keptAttempts)) {
    if (now !== 'EXITED' || !runtime) continue;
    await runtime.pleg.driver.removeContainer(id, { signal });
    state.removeContainer(id);
    if (!runtime.hollow) await rm(join(node.paths.podLogs(pod), name, `${metadata.attempt}.log`), { force: true });
  }
  record.pruneTerminationMessages((id) => state.container(id) !== undefined);
}
