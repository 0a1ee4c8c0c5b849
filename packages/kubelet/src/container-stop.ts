import { fieldPath, isSidecar, type PlacedContainer } from './pods.ts';
import type { ContainerStatus } from '@oarlock/spi/runtime';
import type { KillReason } from './pod-actions.ts';
import type { PodRecord } from './pod-record.ts';
import { runHook } from './lifecycle-hooks.ts';
import { LinkedSignal } from './linked-signal.ts';

/** Containers get at least so long, in seconds, however little is left. */
const minGrace = 2;

export interface StopRequest {
  readonly status: ContainerStatus;
  /** Undefined when the spec does not know the container any more. */
  readonly placed: PlacedContainer | undefined;
  readonly reason: KillReason;
  readonly message?: string;
  /** Seconds; absent: what the spec says. */
  readonly grace?: number | undefined;
  readonly signal: AbortSignal;
  /** Waits for the container's turn after its preStop hook; what is left of the grace then, in seconds. */
  turn?(graceLeft: number): Promise<number>;
}

/** How long a container may take to end, in seconds. A failed probe may say so itself. */
export function graceOf({ pod }: PodRecord, placed: PlacedContainer | undefined, reason: KillReason): number {
  if (pod.metadata?.deletionGracePeriodSeconds !== undefined) return pod.metadata.deletionGracePeriodSeconds;
  const probe =
    reason === 'StartupProbe' ? placed?.container.startupProbe : reason === 'LivenessProbe' ? placed?.container.livenessProbe : undefined;
  return probe?.terminationGracePeriodSeconds ?? pod.spec?.terminationGracePeriodSeconds ?? 30;
}

/** Stops one container: event, preStop hook, stop signal, and a kill when its grace is over. Leaves its final status in the record. */
export async function stopContainer(record: PodRecord, request: StopRequest, hooked?: Set<string>): Promise<void> {
  const { status, placed, reason, signal, turn } = request;
  const { runtime, node } = record;
  if (!runtime) return;
  const { hub } = runtime;
  let grace = request.grace ?? graceOf(record, placed, reason);
  const first = hooked?.has(status.id) !== true;
  hooked?.add(status.id);
  if (first)
    record.event('Normal', 'Killing', request.message ?? `Stopping container ${status.metadata.name}`, placed && fieldPath(placed));
  const preStop = placed?.container.lifecycle?.preStop;
  if (preStop && placed && grace > 0 && first && status.state === 'RUNNING') {
    const began = node.clock.monotonic();
    try {
      await withinGrace(record, grace, signal, (limited) =>
        runHook(preStop, {
          driver: hub.driver,
          container: placed.container,
          containerId: status.id,
          podIP: record.state.podIPs[0] ?? node.addresses[0] ?? '',
          clock: node.clock,
          signal: limited,
          timeoutMs: grace * 1000,
        }),
      );
    } catch (error) {
      signal.throwIfAborted();
      node.log.debug({ err: error, pod: record.key, container: status.metadata.name }, 'a preStop hook failed');
      record.event('Warning', 'FailedPreStopHook', 'PreStopHook failed', fieldPath(placed));
    }
    grace -= Math.ceil((node.clock.monotonic() - began) / 1000);
  }
  if (turn && grace > 0) grace = await turn(grace);
  await hub.driver.stopContainer(status.id, Math.max(minGrace, grace), { signal });
  const now = await hub.containerStatus(status.id, signal);
  if (now) record.state.setContainer(now);
  else record.state.removeContainer(status.id);
}

/** A hook that is not done when the grace is over is left behind. */
async function withinGrace(
  record: PodRecord,
  grace: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<void>,
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
 * Stops all containers that run: the regular ones together, then the sidecars one by one, the last one first. All preStop hooks run at once.
 * `grace` in seconds is for all of them together; absent: each has what the spec says.
 */
export async function stopAllContainers(
  record: PodRecord,
  { grace, signal, hooked }: { readonly grace?: number | undefined; readonly signal: AbortSignal; readonly hooked?: Set<string> },
): Promise<void> {
  const { pod, state, node } = record;
  const alive = state.containers.filter(({ state: now }) => now === 'RUNNING' || now === 'UNKNOWN' || now === 'CREATED');
  if (alive.length === 0) return;
  const began = node.clock.monotonic();
  const sidecars = (pod.spec?.initContainers ?? []).filter(isSidecar).map(({ name }) => name);
  const done = new Map<string, Promise<void>>();
  const settle: (() => void)[] = [];
  const placedOf = placements(record);
  const work = alive.map((status) => {
    const { name } = status.metadata;
    const place = sidecars.indexOf(name);
    const finished = new Promise<void>((resolve) => {
      settle.push(resolve);
    });
    done.set(name, finished);
    const release = settle.at(-1) as () => void;
    // a sidecar goes after everything that is no sidecar, and after the sidecars that came later
    const waitFor = () =>
      [...done]
        .filter(([other]) => other !== name && (sidecars.indexOf(other) < 0 || sidecars.indexOf(other) > place))
        .map(([, promise]) => promise);
    return stopContainer(
      record,
      {
        status,
        placed: placedOf.get(name),
        reason: 'Pod',
        grace,
        signal,
        ...(place >= 0 && {
          turn: async (left: number) => {
            await Promise.resolve(); // until all of them are known
            const over = new AbortController();
            await Promise.race([Promise.all(waitFor()), node.clock.sleep(left * 1000, over.signal).catch(() => undefined)]);
            over.abort();
            return Math.max(0, (grace ?? left) - Math.ceil((node.clock.monotonic() - began) / 1000));
          },
        }),
      },
      hooked,
    ).finally(release);
  });
  const results = await Promise.allSettled(work);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}

function placements({ pod }: PodRecord): ReadonlyMap<string, PlacedContainer> {
  const found = new Map<string, PlacedContainer>();
  for (const [kind, list] of [
    ['init', pod.spec?.initContainers],
    ['regular', pod.spec?.containers],
    ['ephemeral', pod.spec?.ephemeralContainers],
  ] as const) {
    for (const [index, container] of (list ?? []).entries()) found.set(container.name, { kind, index, container });
  }
  return found;
}
