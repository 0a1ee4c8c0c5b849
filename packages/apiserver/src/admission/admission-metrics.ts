import type { Operation } from '@oarlock/spi/admission';
import type { Registry } from 'prom-client';
import { PrecomputedHistogram, type Observer } from '@oarlock/kernel/precomputed-metrics';
import { PrecomputedSummary } from '../metrics/summary.ts';

/** The buckets of upstream's histograms of admission, in seconds. */
const buckets = [0.005, 0.025, 0.1, 0.5, 1, 2.5];
const stepLabels = ['type', 'operation', 'rejected'] as const;

/** The admission phases, named by the values of the metric label `type`. */
export type AdmissionStage = 'admit' | 'validate';
/** Records the duration of admission in seconds, and whether admission rejected the request. */
export type ObserveAdmission = (operation: Operation, rejected: boolean, seconds: number) => void;

/** The metric names of plugins for which upstream's naming rule does not apply (see `pluginMetricName`). */
const known: Readonly<Record<string, Readonly<Record<AdmissionStage, string>> | string>> = {
  'admission-webhooks': { admit: 'MutatingAdmissionWebhook', validate: 'ValidatingAdmissionWebhook' },
  'admission-mutating-policy': 'MutatingAdmissionPolicy',
  'admission-validating-policy': 'ValidatingAdmissionPolicy',
  'admission-deny-service-external-ips': 'DenyServiceExternalIPs',
};

/** Returns the name that upstream's metrics have for a plugin, such as `NamespaceLifecycle` for `admission-namespace-lifecycle`. */
export function pluginMetricName(plugin: string, stage: AdmissionStage): string {
  const name = Object.hasOwn(known, plugin) ? known[plugin] : undefined;
  if (name !== undefined) return typeof name === 'string' ? name : name[stage];
  return plugin
    .replace(/^admission-/, '')
    .split('-')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');
}

/** The duration metrics of admission, by plugin and by phase. The series of each plugin are resolved once. */
export class AdmissionMetrics {
  readonly #controllers: PrecomputedHistogram;
  readonly #steps: PrecomputedHistogram;
  readonly #summary: PrecomputedSummary;

  constructor(registry: Registry) {
    this.#controllers = new PrecomputedHistogram({
      name: 'apiserver_admission_controller_admission_duration_seconds',
      help: 'Latency of one admission plugin in seconds, by phase and result.',
      labelNames: ['name', ...stepLabels],
      buckets,
      registry,
    });
    this.#steps = new PrecomputedHistogram({
      name: 'apiserver_admission_step_admission_duration_seconds',
      help: 'Latency of a phase of admission in seconds, by result.',
      labelNames: stepLabels,
      buckets,
      registry,
    });
    this.#summary = new PrecomputedSummary({
      name: 'apiserver_admission_step_admission_duration_seconds_summary',
      help: 'Latency of a phase of admission in seconds, as quantiles of the last requests.',
      labelNames: stepLabels,
      registry,
    });
  }

  controller(plugin: string, type: AdmissionStage): ObserveAdmission {
    const name = pluginMetricName(plugin, type);
    return timed((labels) => [this.#controllers.series({ name, type, ...labels })]);
  }

  step(type: AdmissionStage): ObserveAdmission {
    return timed((labels) => [this.#steps.series({ type, ...labels }), this.#summary.series({ type, ...labels })]);
  }
}

function timed(make: (labels: { readonly operation: string; readonly rejected: string }) => readonly Observer[]): ObserveAdmission {
  const all = [new Map<Operation, readonly Observer[]>(), new Map<Operation, readonly Observer[]>()] as const;
  return (operation, rejected, seconds) => {
    const series = all[rejected ? 1 : 0];
    let observers = series.get(operation);
    if (observers === undefined) series.set(operation, (observers = make({ operation, rejected: String(rejected) })));
    for (const observer of observers) observer.observe(seconds);
  };
}
