import type { Container, ContainerStatus as ApiStatus, EphemeralContainer, Pod, Probe } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { spanContextOf, startSpan, type SpanContext } from '@oarlock/kernel/tracing';
import type { ContainerStatus, RuntimeDriver } from '@oarlock/spi/runtime';
import type { Tracer } from '@opentelemetry/api';
import { isRestartableInitContainer } from '@oarlock/api/component-helpers/restartable-init-container';
import { fieldPath, containerStatusesOf, findContainerStatus, type ContainerType } from '../pod-util/pods.ts';
import { Histogram } from './histogram.ts';
import type { RuntimePodStatus } from '../runtime/runtime-pod-status.ts';
import type { ProbeType } from './prober.ts';
import type { ProbeAttemptResult } from './probe-result.ts';
import { ProbeWorker } from './probe-worker.ts';

export interface ProbeManagerOptions {
  readonly driver: RuntimeDriver;
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly random: () => number;
  event(type: 'Normal' | 'Warning', reason: string, message: string, path: string): void;
  /** Called when a probe result changed, with the span of the probe. */
  changed(spanContext: SpanContext | undefined): void;
  spanContext(): SpanContext | undefined;
}

interface Probed {
  readonly kind: ContainerType;
  readonly container: Container | EphemeralContainer;
}
interface ContainerProbeResults {
  startup?: boolean | undefined;
  readiness?: boolean | undefined;
  liveness?: boolean | undefined;
}

/** Prometheus' default buckets. Seconds. */
const durationBounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const kinds = ['startup', 'readiness', 'liveness'] as const satisfies readonly ProbeType[];
const titles: Readonly<Record<ProbeType, string>> = { startup: 'Startup', readiness: 'Readiness', liveness: 'Liveness' };
const metricResults = { success: 'successful', failure: 'failed', error: 'unknown' } as const;
const probeOf = (container: Container | EphemeralContainer, kind: ProbeType): Probe | undefined =>
  kind === 'startup' ? container.startupProbe : kind === 'readiness' ? container.readinessProbe : container.livenessProbe;

export function hasProbes(pod: Pod): boolean {
  const probed = (container: Container) =>
    container.startupProbe !== undefined || container.readinessProbe !== undefined || container.livenessProbe !== undefined;
  return (
    (pod.spec?.containers ?? []).some(probed) ||
    (pod.spec?.initContainers ?? []).some((container) => isRestartableInitContainer(container) && probed(container))
  );
}

/** The runtime status and address of the pod whose containers are probed. */
export interface ProbeTarget {
  readonly state: RuntimePodStatus;
  readonly podIP: string;
  readonly adopted: boolean;
}

/** Runs the probes of one pod's containers and holds the probe results (prober manager upstream). */
export class ProbeManager {
  readonly #options: ProbeManagerOptions;
  readonly #workers = new Map<string, ProbeWorker>();
  readonly #results = new Map<string, ContainerProbeResults>();
  #terminating = false;
  /** The number of attempts, keyed by container, probe type and result. */
  readonly #counts = new Map<string, { container: string; kind: ProbeType; result: string; count: number }>();
  /** The durations of attempts, keyed by container and probe type. */
  readonly #durations = new Map<string, { container: string; kind: ProbeType; values: Histogram }>();

  constructor(options: ProbeManagerOptions) {
    this.#options = options;
  }

  startup(id: string): boolean | undefined {
    return this.#results.get(id)?.startup;
  }
  readiness(id: string): boolean | undefined {
    return this.#results.get(id)?.readiness;
  }
  liveness(id: string): boolean | undefined {
    return this.#results.get(id)?.liveness;
  }

  /** Starts probes of running containers and stops all other probes. `adopted`: the containers ran before this kubelet started. */
  sync(pod: Pod, { state, podIP, adopted }: ProbeTarget): void {
    const active = new Set<string>();
    for (const probed of probedContainers(pod)) {
      const status = state.latestContainer(probed.container.name);
      if (status?.state !== 'RUNNING') continue;
      if (!this.#results.has(status.id)) this.#results.set(status.id, adopted ? reportedResults(pod, probed, status) : {});
      for (const kind of kinds) {
        const probe = probeOf(probed.container, kind);
        if (probe === undefined || (this.#terminating && kind !== 'readiness') || !this.#shouldStart(probed, kind, status)) continue;
        const key = `${kind} ${status.id}`;
        active.add(key);
        if (!this.#workers.has(key)) this.#workers.set(key, this.#createWorker(pod, probed, { kind, probe, status, podIP, adopted }));
      }
    }
    for (const [key, worker] of this.#workers) {
      if (active.has(key)) continue;
      worker.stop();
      this.#workers.delete(key);
    }
    for (const id of this.#results.keys()) if (state.container(id)?.state !== 'RUNNING') this.#results.delete(id);
  }

  /** Stops the liveness and startup probes of a terminating pod, whose containers are not restarted. */
  stopLivenessAndStartup(): void {
    this.#terminating = true;
    for (const [key, worker] of this.#workers) {
      if (key.startsWith('readiness')) continue;
      worker.stop();
      this.#workers.delete(key);
    }
  }

  /** Returns the number of attempts of each probe and result. */
  resultCounts(): Iterable<{ readonly container: string; readonly kind: ProbeType; readonly result: string; readonly count: number }> {
    return this.#counts.values();
  }

  /** Returns the durations of the attempts of each probe, in seconds. */
  durations(): Iterable<{ readonly container: string; readonly kind: ProbeType; readonly values: Histogram }> {
    return this.#durations.values();
  }

  stop(): void {
    for (const worker of this.#workers.values()) worker.stop();
    this.#workers.clear();
  }

  #count(
    container: string,
    { kind, attempt, took }: { readonly kind: ProbeType; readonly attempt: ProbeAttemptResult['result']; readonly took: number },
  ): void {
    const probe = `${kind} ${container}`;
    const measured = this.#durations.get(probe) ?? { container, kind, values: new Histogram(durationBounds) };
    this.#durations.set(probe, measured);
    measured.values.observe(took / 1000);
    const key = `${kind} ${attempt} ${container}`;
    const known = this.#counts.get(key);
    if (known) known.count += 1;
    else this.#counts.set(key, { container, kind, result: metricResults[attempt], count: 1 });
  }

  /** Returns true if the probe should run: a startup probe until it has a result, other probes once the startup probe succeeded. */
  #shouldStart({ container }: Probed, kind: ProbeType, { id }: ContainerStatus): boolean {
    const started = container.startupProbe === undefined || this.startup(id) === true;
    return kind === 'startup' ? this.startup(id) === undefined : started;
  }

  #createWorker(
    pod: Pod,
    probed: Probed,
    {
      kind,
      probe,
      status,
      podIP,
      adopted,
    }: {
      readonly kind: ProbeType;
      readonly probe: Probe;
      readonly status: ContainerStatus;
      readonly podIP: string;
      readonly adopted: boolean;
    },
  ): ProbeWorker {
    const { driver, clock, random } = this.#options;
    const delay = (probe.initialDelaySeconds ?? 0) * 1000;
    const due = Math.min(delay, (status.startedAt ?? clock.now()) + delay - clock.now()); // the clock may have been set back
    const initial = this.#results.get(status.id)?.[kind];
    return new ProbeWorker({
      kind,
      probe,
      container: probed.container,
      containerId: status.id,
      podIP,
      driver,
      clock,
      initial,
      // a restarted kubelet spreads the first attempts of its pods over a period
      initialDelayMs: adopted ? Math.max(due, random() * (probe.periodSeconds ?? 10) * 1000) : Math.max(0, due),
      onAttempt: (attempt, result, changed, took) => this.#onAttempt(probed, kind, { id: status.id, attempt, result, changed, took }),
    });
  }

  #onAttempt(
    probed: Probed,
    kind: ProbeType,
    {
      id,
      attempt,
      result,
      changed,
      took,
    }: {
      readonly id: string;
      readonly attempt: ProbeAttemptResult;
      readonly result: boolean | undefined;
      readonly changed: boolean;
      readonly took: number;
    },
  ): void {
    const { event, tracer, clock, spanContext } = this.#options;
    const path = fieldPath(probed);
    this.#count(probed.container.name, { kind, attempt: attempt.result, took });
    const attemptEvent = probeEventMessage(kind, attempt);
    if (attemptEvent !== undefined) event('Warning', attemptEvent.reason, attemptEvent.message, path);
    const results = this.#results.get(id);
    if (!changed || results === undefined) return;
    results[kind] = result;
    const span = startSpan(tracer, 'probe', {
      spanContext: spanContext(),
      startTime: clock.monotonic() - took,
      attributes: { 'oarlock.container': probed.container.name, 'oarlock.probe': kind, 'oarlock.result': result ? 'success' : 'failure' },
    });
    span.end(clock.monotonic());
    this.#options.changed(spanContextOf(span) ?? spanContext());
  }
}

/** Returns the event message of an attempt; undefined if the attempt records no event. */
export function probeEventMessage(
  kind: ProbeType,
  { result, output, warning }: ProbeAttemptResult,
): { readonly reason: string; readonly message: string } | undefined {
  const excerpt = output.length > 1024 ? output.slice(0, 1024) : output;
  if (result === 'failure') return { reason: 'Unhealthy', message: `${titles[kind]} probe failed: ${excerpt}` };
  if (result === 'error')
    return { reason: 'Unhealthy', message: `${titles[kind]} probe errored and resulted in unknown state: ${excerpt}` };
  return warning && { reason: 'ProbeWarning', message: `${titles[kind]} probe warning: ${excerpt}` };
}

function* probedContainers(pod: Pod): Generator<Probed> {
  for (const container of pod.spec?.initContainers ?? []) if (isRestartableInitContainer(container)) yield { kind: 'init', container };
  for (const container of pod.spec?.containers ?? []) yield { kind: 'regular', container };
}

/** Returns the probe results in the API status of a container that ran before this kubelet started. They stay valid until a probe changes them. */
function reportedResults(pod: Pod, { kind, container }: Probed, { id }: ContainerStatus): ContainerProbeResults {
  const status: ApiStatus | undefined = findContainerStatus(containerStatusesOf(pod.status, kind), container.name);
  if (status?.containerID?.endsWith(`://${id}`) !== true) return {};
  return {
    ...(container.startupProbe && status.started === true && { startup: true }),
    ...(container.readinessProbe && status.ready && { readiness: true }),
  };
}
