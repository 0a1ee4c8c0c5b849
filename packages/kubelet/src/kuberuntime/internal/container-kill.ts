import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import { fieldPath, type SpecContainer } from '../../pod-util/pods.ts';
import type { ContainerStatus } from '@oarlock/spi/runtime';
import type { ContainerKillReason } from '../pod-actions.ts';
import type { PodRecord } from '../../pod/pod-record.ts';
import { runLifecycleHandler } from './lifecycle-handlers.ts';
import { LinkedSignal } from '@oarlock/primitives/concurrency/linked-signal';

/** The shortest grace period of a container (minimumGracePeriodInSeconds upstream). Seconds. */
const minGraceSeconds = 2;

export interface KillRequest {
  readonly status: ContainerStatus;
  /** Undefined if the container is no longer in the spec. */
  readonly specContainer: SpecContainer | undefined;
  readonly reason: ContainerKillReason;
  readonly message?: string;
  /** The grace period in seconds; undefined selects the result of `terminationGracePeriodOf`. */
  readonly grace?: number | undefined;
  readonly signal: AbortSignal;
  /** Waits after the preStop hook until the termination order allows the container to stop. Takes and returns the remaining grace period in seconds. */
  waitForTerminationOrder?(graceLeft: number): Promise<number>;
}

/** Returns the grace period of a container in seconds. A failed startup or liveness probe may define its own terminationGracePeriodSeconds. */
export function terminationGracePeriodOf(
  { pod }: PodRecord,
  specContainer: SpecContainer | undefined,
  reason: ContainerKillReason,
): number {
  if (pod.metadata?.deletionGracePeriodSeconds !== undefined) return pod.metadata.deletionGracePeriodSeconds;
  const probe =
    reason === 'StartupProbe'
      ? specContainer?.container.startupProbe
      : reason === 'LivenessProbe'
        ? specContainer?.container.livenessProbe
        : undefined;
  return probe?.terminationGracePeriodSeconds ?? pod.spec?.terminationGracePeriodSeconds ?? 30;
}

/**
 * Stops one container: records an event, runs the preStop hook, sends the stop signal, and sends SIGKILL after the grace period.
 * Stores the container's final status in the record.
 */
export async function killContainer(record: PodRecord, request: KillRequest, preStopHooksRun?: Set<string>): Promise<void> {
  const { status, specContainer, reason, signal, waitForTerminationOrder } = request;
  const { runtime, node } = record;
  if (!runtime) return;
  const { pleg } = runtime;
  let grace = request.grace ?? terminationGracePeriodOf(record, specContainer, reason);
  const first = preStopHooksRun?.has(status.id) !== true;
  preStopHooksRun?.add(status.id);
  if (first)
    record.event(
      'Normal',
      'Killing',
      request.message ?? `Stopping container ${status.metadata.name}`,
      specContainer && fieldPath(specContainer),
    );
  const preStop = specContainer?.container.lifecycle?.preStop;
  if (preStop && specContainer && grace > 0 && first && status.state === 'RUNNING') {
    const startedAt = node.clock.monotonic();
    try {
      await runWithinGracePeriod(record, {
        grace,
        signal,
        work: (limited) =>
          runLifecycleHandler(preStop, {
            driver: pleg.driver,
            container: specContainer.container,
            containerId: status.id,
            podIP: record.state.podIPs[0] ?? node.addresses[0] ?? '',
            clock: node.clock,
            signal: limited,
            timeoutMs: grace * 1000,
          }),
      });
    } catch (error) {
      signal.throwIfAborted();
      node.log.debug({ err: error, pod: record.key, container: status.metadata.name }, 'a preStop hook failed');
      record.event('Warning', 'FailedPreStopHook', 'PreStopHook failed', fieldPath(specContainer));
    }
    grace -= Math.ceil((node.clock.monotonic() - startedAt) / 1000);
  }
  if (waitForTerminationOrder && grace > 0) grace = await waitForTerminationOrder(grace);
  await pleg.driver.stopContainer(status.id, Math.max(minGraceSeconds, grace), { signal });
  const now = await pleg.containerStatus(status.id, signal);
  if (now) record.state.setContainer(now);
  else record.state.removeContainer(status.id);
}

/** Runs `work` and aborts it at the end of the grace period. */
async function runWithinGracePeriod(
  record: PodRecord,
  { grace, signal, work }: { readonly grace: number; readonly signal: AbortSignal; readonly work: (signal: AbortSignal) => Promise<void> },
): Promise<void> {
  const limited = new LinkedSignal(signal);
  const timer = record.node.clock.after(grace * 1000, () => limited.abort(new Error(`not done after ${grace}s`)));
  try {
    await work(limited.signal);
  } finally {
    timer.cancel();
    limited.release();
  }
}

/**
 * Stops all running containers: the regular containers concurrently, then the sidecars in reverse order (KEP-753). All preStop hooks run
 * concurrently. `grace` is one grace period in seconds for all containers together; undefined selects the grace period of each container.
 */
export async function killContainersWithSyncResult(
  record: PodRecord,
  {
    grace,
    signal,
    preStopHooksRun,
  }: { readonly grace?: number | undefined; readonly signal: AbortSignal; readonly preStopHooksRun?: Set<string> },
): Promise<void> {
  const { pod, state, node } = record;
  const alive = state.containers.filter(({ state: now }) => now === 'RUNNING' || now === 'UNKNOWN' || now === 'CREATED');
  if (alive.length === 0) return;
  const startedAt = node.clock.monotonic();
  const sidecars = (pod.spec?.initContainers ?? []).filter(isRestartableInitContainer).map(({ name }) => name);
  const done = new Map<string, Promise<void>>();
  const settle: (() => void)[] = [];
  const byName = specContainersByName(record);
  const work = alive.map((status) => {
    const { name } = status.metadata;
    const place = sidecars.indexOf(name);
    const finished = new Promise<void>((resolve) => {
      settle.push(resolve);
    });
    done.set(name, finished);
    const release = settle.at(-1) as () => void;
    // a sidecar stops after all containers that are not sidecars, and after later sidecars
    const waitFor = () =>
      [...done]
        .filter(([other]) => other !== name && (sidecars.indexOf(other) < 0 || sidecars.indexOf(other) > place))
        .map(([, promise]) => promise);
    return killContainer(
      record,
      {
        status,
        specContainer: byName.get(name),
        reason: 'Pod',
        grace,
        signal,
        ...(place >= 0 && {
          waitForTerminationOrder: async (left: number) => {
            await Promise.resolve(); // until `done` has an entry for every container
            const over = new AbortController();
            await Promise.race([Promise.all(waitFor()), node.clock.sleep(left * 1000, over.signal).catch(() => undefined)]);
            over.abort();
            return Math.max(0, (grace ?? left) - Math.ceil((node.clock.monotonic() - startedAt) / 1000));
          },
        }),
      },
      preStopHooksRun,
    ).finally(release);
  });
  const results = await Promise.allSettled(work);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}

function specContainersByName({ pod }: PodRecord): ReadonlyMap<string, SpecContainer> {
  const found = new Map<string, SpecContainer>();
  for (const [kind, list] of [
    ['init', pod.spec?.initContainers],
    ['regular', pod.spec?.containers],
    ['ephemeral', pod.spec?.ephemeralContainers],
  ] as const) {
    for (const [index, container] of (list ?? []).entries()) found.set(container.name, { kind, index, container });
  }
  return found;
}
