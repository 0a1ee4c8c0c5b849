import type { Operation } from '@oarlock/spi/admission';
import type { Registry } from 'prom-client';
import { TallyHistogram, type Tally } from './tally.ts';
import { TallySummary } from './tally-summary.ts';

/** Bounds of upstream's histograms, in seconds. */
const buckets = [0.005, 0.025, 0.1, 0.5, 1, 2.5];
const stepLabels = ['type', 'operation', 'rejected'] as const;

/** Both stages as series name them. */
export type AdmissionStage = 'admit' | 'validate';
/** Takes how long it took, and whether it ended in a refusal. */
export type Timed = (operation: Operation, rejected: boolean, seconds: number) => void;

/** Names under which dashboards know what plugins do; all others are called by their own name, put together. */
const known: Readonly<Record<string, Readonly<Record<AdmissionStage, string>> | string>> = {
  'admission-webhooks': { admit: 'MutatingAdmissionWebhook', validate: 'ValidatingAdmissionWebhook' },
  'admission-mutating-policy': 'MutatingAdmissionPolicy',
  'admission-validating-policy': 'ValidatingAdmissionPolicy',
  'admission-deny-service-external-ips': 'DenyServiceExternalIPs',
};

/** `NamespaceLifecycle` of `admission-namespace-lifecycle`. */
export function controllerName(plugin: string, stage: AdmissionStage): string {
  const name = Object.hasOwn(known, plugin) ? known[plugin] : undefined;
  if (name !== undefined) return typeof name === 'string' ? name : name[stage];
  return plugin
    .replace(/^admission-/, '')
    .split('-')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');
}

/** What admission takes, plugin by plugin and stage by stage. Series are found once for each place of the chain. */
export class AdmissionMetrics {
  readonly #controllers: TallyHistogram;
  readonly #steps: TallyHistogram;
  readonly #summary: TallySummary;

  constructor(registry: Registry) {
    this.#controllers = new TallyHistogram({
      name: 'apiserver_admission_controller_admission_duration_seconds',
      help: 'Seconds that one plugin takes to change or to judge a request.',
      labelNames: ['name', ...stepLabels],
      buckets,
      registry,
    });
    this.#steps = new TallyHistogram({
      name: 'apiserver_admission_step_admission_duration_seconds',
      help: 'Seconds that all plugins together take to change or to judge a request.',
      labelNames: stepLabels,
      buckets,
      registry,
    });
    this.#summary = new TallySummary({
      name: 'apiserver_admission_step_admission_duration_seconds_summary',
      help: 'Seconds that all plugins together take to change or to judge a request, as quantiles of the last ones.',
      labelNames: stepLabels,
      registry,
    });
  }

  controller(plugin: string, type: AdmissionStage): Timed {
    const name = controllerName(plugin, type);
    return timed((labels) => [this.#controllers.series({ name, type, ...labels })]);
  }

  step(type: AdmissionStage): Timed {
    return timed((labels) => [this.#steps.series({ type, ...labels }), this.#summary.series({ type, ...labels })]);
  }
}

function timed(make: (labels: { readonly operation: string; readonly rejected: string }) => readonly Tally[]): Timed {
  const all = [new Map<Operation, readonly Tally[]>(), new Map<Operation, readonly Tally[]>()] as const;
  return (operation, rejected, seconds) => {
    const series = all[rejected ? 1 : 0];
    let tallies = series.get(operation);
    if (tallies === undefined) series.set(operation, (tallies = make({ operation, rejected: String(rejected) })));
    for (const tally of tallies) tally.observe(seconds);
  };
}
