import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { RuntimeError, type PodSandboxConfig } from '@oarlock/spi/runtime';
import { stopContainer } from './container-stop.ts';
import { ImageProblem } from './images.ts';
import { containerHash, restartCountOf } from './labels.ts';
import { runHook } from './lifecycle-hooks.ts';
import { containerConfig } from './pod-config.ts';
import { describePod, fieldPath, isHostNetwork, isSidecar, statusesOf, statusOf, type PlacedContainer } from './pods.ts';
import { formatDelay } from './restart-backoff.ts';
import { verifyNonRoot } from './security.ts';
import type { SyncPass } from './sync-pass.ts';
import { imagesToMount } from './volumes/image-volumes.ts';

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
/** When to try again what nothing else will tell of, in milliseconds. */
const retryMs = 10_000;
/** Attempts of a container that are kept: the one that counts and the one before it. */
const keptAttempts = 2;

/** Whether the container has to wait because it ended too often lately. */
export function backsOff(pass: SyncPass, { container, kind }: PlacedContainer): boolean {
  const { record } = pass;
  const { node, state, pod } = record;
  const latest = state.latest(container.name);
  if (latest?.state !== 'EXITED') return false;
  // with other resources it may not end any more
  const key = `${container.name} ${containerHash(container)} ${JSON.stringify(container.resources ?? {})}`;
  const now = node.clock.now();
  const since = latest.finishedAt ?? now;
  const wait = record.backoff.remaining(key, since, now);
  if (wait === 0) {
    record.backoff.next(key, since, now);
    return false;
  }
  const path = fieldPath({ kind, container });
  if (record.failures.get(container.name)?.reason !== 'CrashLoopBackOff')
    record.event('Warning', 'BackOff', `Back-off restarting failed container ${container.name} in pod ${describePod(pod)}`, path);
  record.fail(container.name, {
    reason: 'CrashLoopBackOff',
    message: `back-off ${formatDelay(record.backoff.delay(key))} restarting failed container=${container.name} pod=${describePod(pod)}`,
  });
  pass.retryIn(wait);
  return true;
}

function nextRestartCount({ record }: SyncPass, { container, kind }: PlacedContainer): number {
  const latest = record.state.latest(container.name);
  if (latest) return restartCountOf(latest.annotations) + 1;
  const reported = statusOf(statusesOf(record.status ?? record.pod.status, kind), container.name);
  if (reported?.containerID) return reported.restartCount + 1;
  return reported?.lastState?.terminated ? reported.restartCount : 0;
}

/**
 * Starts one container: image, config, create, start, postStart. Returns whether it runs; why not is in the record's failures then, with
 * an event, and the pass knows when to try again.
 */
export async function startContainer(
  pass: SyncPass,
  placed: PlacedContainer,
  sandboxId: string,
  sandbox: PodSandboxConfig,
): Promise<boolean> {
  const { record, signal } = pass;
  const { pod, node, runtime, state } = record;
  const { container } = placed;
  if (!runtime || backsOff(pass, placed)) return false;
  const { driver } = runtime.hub;
  const path = fieldPath(placed);
  const event = (type: 'Normal' | 'Warning', reason: string, message: string) => record.event(type, reason, message, path);
  const failed = (reason: string, error: unknown, retry: number | undefined): false => {
    signal.throwIfAborted();
    // as upstream: the runtime's own words, without its protocol's
    const message = error instanceof RuntimeError ? error.said : messageOf(error);
    event('Warning', 'Failed', `Error: ${error instanceof ImageProblem ? reason : message}`);
    record.fail(container.name, { reason, message });
    pass.retryIn(retry);
    pass.fail(error);
    return false;
  };

  const request = { sandbox, signal, cause: pass.cause, event };
  let image;
  let mountedImages;
  const from = node.clock.monotonic();
  try {
    image = await runtime.images.ensure({ ...request, pod, container });
    mountedImages = await imagesToMount(pod, container, runtime.images, request);
  } catch (error) {
    return failed(
      error instanceof ImageProblem ? error.reason : 'ErrImagePull',
      error,
      error instanceof ImageProblem ? error.retryMs : retryMs,
    );
  } finally {
    record.pulledMs += node.clock.monotonic() - from;
  }
  const restartCount = nextRestartCount(pass, placed);
  let config;
  try {
    verifyNonRoot(pod, container, image.image);
    const target =
      'targetContainerName' in container && container.targetContainerName ? state.latest(container.targetContainerName)?.id : undefined;
    const podIPs = isHostNetwork(pod) ? node.addresses : state.podIPs;
    config = await containerConfig({
      pod,
      container,
      restartCount,
      node,
      runtime,
      handler: record.handler,
      podIPs,
      volumes: record.volumes,
      mountedImages,
      devices: await node.devices?.prepare(pod, container, signal),
      cdiDevices: node.claims?.devicesOf(pod, container) ?? [],
      image,
      targetId: target,
      event,
    });
  } catch (error) {
    return failed('CreateContainerConfigError', error, retryMs);
  }
  let id: string;
  try {
    const made = config;
    id = await pass.step('CreateContainer', (call) => driver.createContainer(sandboxId, made, sandbox, call), {
      'oarlock.container': container.name,
    });
  } catch (error) {
    return failed('CreateContainerError', error, retryMs);
  }
  event('Normal', 'Created', 'Container created');
  const created = {
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
  } as const;
  state.setContainer(created);
  // a pod that is to end meanwhile does not cut the start off: the container would read as one that could not be started
  const toTheEnd = node.signal;
  try {
    await pass.step('StartContainer', ({ cause }) => driver.startContainer(id, { signal: toTheEnd, cause }), {
      'oarlock.container': container.name,
    });
  } catch (error) {
    const status = await runtime.hub.containerStatus(id, toTheEnd);
    if (status) state.setContainer(status);
    return failed('RunContainerError', error, retryMs);
  }
  const status = await runtime.hub.containerStatus(id, toTheEnd);
  if (status === undefined) throw new Error(`container ${id} was gone as soon as it was started`);
  state.setContainer(status);
  record.clearFailure(container.name);
  event('Normal', 'Started', 'Container started');
  // what comes next is not told by an event: this is already known
  if (status.state !== 'RUNNING' || (placed.kind === 'init' && isSidecar(container))) pass.retryIn(0);
  await forgetOldAttempts(pass, container.name);
  return afterStart(pass, placed, id);
}

async function afterStart(pass: SyncPass, placed: PlacedContainer, id: string): Promise<boolean> {
  const { record, signal } = pass;
  const { runtime, node, state } = record;
  const { container } = placed;
  const hook = container.lifecycle?.postStart;
  const status = state.container(id);
  if (!hook || !runtime || status?.state !== 'RUNNING') return true;
  try {
    await pass.step('postStart', (call) =>
      runHook(hook, {
        driver: runtime.hub.driver,
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
    record.event('Warning', 'FailedPostStartHook', 'PostStartHook failed', fieldPath(placed));
    await stopContainer(record, { status, placed, reason: 'FailedPostStart', message: 'FailedPostStartHook', signal });
    record.fail(container.name, { reason: 'PostStartHookError', message: messageOf(error) });
    pass.retryIn(0);
    return false;
  }
}

/** Removes attempts that nobody asks for any more, with their logs. */
async function forgetOldAttempts({ record, signal }: SyncPass, name: string): Promise<void> {
  const { runtime, state, node, pod } = record;
  for (const { id, metadata, state: now } of state.attempts(name).slice(keptAttempts)) {
    if (now !== 'EXITED' || !runtime) continue;
    await runtime.hub.driver.removeContainer(id, { signal });
    state.removeContainer(id);
    if (!runtime.hollow) await rm(join(node.paths.podLogs(pod), name, `${metadata.attempt}.log`), { force: true });
  }
  record.dropMessages((id) => state.container(id) !== undefined);
}
