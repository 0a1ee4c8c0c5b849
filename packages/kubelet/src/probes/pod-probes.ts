import type { Container, ContainerStatus as ApiStatus, EphemeralContainer, Pod, Probe } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { startSpan, type Cause } from '@oarlock/kernel/tracing';
import type { ContainerStatus, RuntimeDriver } from '@oarlock/spi/runtime';
import type { Tracer } from '@opentelemetry/api';
import { fieldPath, isSidecar, statusesOf, statusOf, type ContainerKind } from '../pods.ts';
import { Distribution } from '../server/distribution.ts';
import type { PodState } from '../pod-state.ts';
import type { ProbeKind } from './probe-action.ts';
import type { ProbeOutcome } from './probe-outcome.ts';
import { ProbeRunner } from './probe-runner.ts';

export interface PodProbesOptions {
  readonly driver: RuntimeDriver;
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly random: () => number;
  event(type: 'Normal' | 'Warning', reason: string, message: string, path: string): void;
  /** A verdict changed: the pod has something to do, or to report. */
  changed(): void;
  cause(): Cause | undefined;
}

interface Probed {
  readonly kind: ContainerKind;
  readonly container: Container | EphemeralContainer;
}
interface Verdicts {
  startup?: boolean | undefined;
  readiness?: boolean | undefined;
  liveness?: boolean | undefined;
}

/** Seconds, those of Prometheus where nothing else is said. */
const durationBounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const kinds = ['startup', 'readiness', 'liveness'] as const satisfies readonly ProbeKind[];
const titles: Readonly<Record<ProbeKind, string>> = { startup: 'Startup', readiness: 'Readiness', liveness: 'Liveness' };
const shownResults = { success: 'successful', failure: 'failed', error: 'unknown' } as const;
const probeOf = (container: Container | EphemeralContainer, kind: ProbeKind): Probe | undefined =>
  kind === 'startup' ? container.startupProbe : kind === 'readiness' ? container.readinessProbe : container.livenessProbe;

export function hasProbes(pod: Pod): boolean {
  const probed = (container: Container) =>
    container.startupProbe !== undefined || container.readinessProbe !== undefined || container.livenessProbe !== undefined;
  return (
    (pod.spec?.containers ?? []).some(probed) ||
    (pod.spec?.initContainers ?? []).some((container) => isSidecar(container) && probed(container))
  );
}

/** The probes of one pod's containers, and what they have found. */
export class PodProbes {
  readonly #options: PodProbesOptions;
  readonly #runners = new Map<string, ProbeRunner>();
  readonly #verdicts = new Map<string, Verdicts>();
  #terminating = false;
  /** By container, kind and result: how often. */
  readonly #counts = new Map<string, { container: string; kind: ProbeKind; result: string; count: number }>();
  /** By container and kind: how long they took. */
  readonly #durations = new Map<string, { container: string; kind: ProbeKind; values: Distribution }>();

  constructor(options: PodProbesOptions) {
    this.#options = options;
  }

  startup(id: string): boolean | undefined {
    return this.#verdicts.get(id)?.startup;
  }
  readiness(id: string): boolean | undefined {
    return this.#verdicts.get(id)?.readiness;
  }
  liveness(id: string): boolean | undefined {
    return this.#verdicts.get(id)?.liveness;
  }

  /** Probes exactly the containers that run. Call it when something may have started or ended. `adopted`: they ran before this kubelet did. */
  sync(pod: Pod, state: PodState, podIP: string, adopted: boolean): void {
    const wanted = new Set<string>();
    for (const probed of probedContainers(pod)) {
      const status = state.latest(probed.container.name);
      if (status?.state !== 'RUNNING') continue;
      if (!this.#verdicts.has(status.id)) this.#verdicts.set(status.id, adopted ? known(pod, probed, status) : {});
      for (const kind of kinds) {
        const probe = probeOf(probed.container, kind);
        if (probe === undefined || (this.#terminating && kind !== 'readiness') || !this.#begins(probed, kind, status)) continue;
        const key = `${kind} ${status.id}`;
        wanted.add(key);
        if (!this.#runners.has(key)) this.#runners.set(key, this.#runner(pod, probed, kind, probe, status, podIP, adopted));
      }
    }
    for (const [key, runner] of this.#runners) {
      if (wanted.has(key)) continue;
      runner.stop();
      this.#runners.delete(key);
    }
    for (const id of this.#verdicts.keys()) if (state.container(id)?.state !== 'RUNNING') this.#verdicts.delete(id);
  }

  /** From now on only readiness matters: what is being stopped is not to be restarted. */
  terminate(): void {
    this.#terminating = true;
    for (const [key, runner] of this.#runners) {
      if (key.startsWith('readiness')) continue;
      runner.stop();
      this.#runners.delete(key);
    }
  }

  /** How often each probe had which result. */
  counts(): Iterable<{ readonly container: string; readonly kind: ProbeKind; readonly result: string; readonly count: number }> {
    return this.#counts.values();
  }

  /** How long each probe took, in seconds. */
  durations(): Iterable<{ readonly container: string; readonly kind: ProbeKind; readonly values: Distribution }> {
    return this.#durations.values();
  }

  stop(): void {
    for (const runner of this.#runners.values()) runner.stop();
    this.#runners.clear();
  }

  #count(container: string, kind: ProbeKind, outcome: ProbeOutcome['result'], took: number): void {
    const probe = `${kind} ${container}`;
    const measured = this.#durations.get(probe) ?? { container, kind, values: new Distribution(durationBounds) };
    this.#durations.set(probe, measured);
    measured.values.observe(took / 1000);
    const key = `${kind} ${outcome} ${container}`;
    const known = this.#counts.get(key);
    if (known) known.count += 1;
    else this.#counts.set(key, { container, kind, result: shownResults[outcome], count: 1 });
  }

  /** Readiness and liveness wait until the container has started; who has started is not asked again. */
  #begins({ container }: Probed, kind: ProbeKind, { id }: ContainerStatus): boolean {
    const started = container.startupProbe === undefined || this.startup(id) === true;
    return kind === 'startup' ? this.startup(id) === undefined : started;
  }

  #runner(pod: Pod, probed: Probed, kind: ProbeKind, probe: Probe, status: ContainerStatus, podIP: string, adopted: boolean): ProbeRunner {
    const { driver, clock, random } = this.#options;
    const delay = (probe.initialDelaySeconds ?? 0) * 1000;
    const due = Math.min(delay, (status.startedAt ?? clock.now()) + delay - clock.now()); // the clock may have been set back
    const initial = this.#verdicts.get(status.id)?.[kind];
    return new ProbeRunner({
      kind,
      probe,
      container: probed.container,
      containerId: status.id,
      podIP,
      driver,
      clock,
      initial,
      // kubelets that come back do not probe all their pods in the same moment
      firstMs: adopted ? Math.max(due, random() * (probe.periodSeconds ?? 10) * 1000) : Math.max(0, due),
      heard: (outcome, verdict, changed, took) => this.#heard(probed, kind, status.id, outcome, verdict, changed, took),
    });
  }

  #heard(
    probed: Probed,
    kind: ProbeKind,
    id: string,
    outcome: ProbeOutcome,
    verdict: boolean | undefined,
    changed: boolean,
    took: number,
  ): void {
    const { event, tracer, clock, cause } = this.#options;
    const path = fieldPath(probed);
    this.#count(probed.container.name, kind, outcome.result, took);
    const said = toldOf(kind, outcome);
    if (said !== undefined) event('Warning', said.reason, said.message, path);
    const verdicts = this.#verdicts.get(id);
    if (!changed || verdicts === undefined) return;
    verdicts[kind] = verdict;
    startSpan(tracer, 'probe', {
      cause: cause(),
      startTime: clock.now() - took,
      attributes: { 'oarlock.container': probed.container.name, 'oarlock.probe': kind, 'oarlock.result': verdict ? 'success' : 'failure' },
    }).end(clock.now());
    this.#options.changed();
  }
}

/** What people are told of an attempt; undefined: nothing. */
export function toldOf(
  kind: ProbeKind,
  { result, output, warning }: ProbeOutcome,
): { readonly reason: string; readonly message: string } | undefined {
  const shown = output.length > 1024 ? output.slice(0, 1024) : output;
  if (result === 'failure') return { reason: 'Unhealthy', message: `${titles[kind]} probe failed: ${shown}` };
  if (result === 'error') return { reason: 'Unhealthy', message: `${titles[kind]} probe errored and resulted in unknown state: ${shown}` };
  return warning && { reason: 'ProbeWarning', message: `${titles[kind]} probe warning: ${shown}` };
}

function* probedContainers(pod: Pod): Generator<Probed> {
  for (const container of pod.spec?.initContainers ?? []) if (isSidecar(container)) yield { kind: 'init', container };
  for (const container of pod.spec?.containers ?? []) yield { kind: 'regular', container };
}

/** What was reported of the same container before this kubelet began: it was right then, and holds until a probe says otherwise. */
function known(pod: Pod, { kind, container }: Probed, { id }: ContainerStatus): Verdicts {
  const status: ApiStatus | undefined = statusOf(statusesOf(pod.status, kind), container.name);
  if (status?.containerID?.endsWith(`://${id}`) !== true) return {};
  return {
    ...(container.startupProbe && status.started === true && { startup: true }),
    ...(container.readinessProbe && status.ready && { readiness: true }),
  };
}
