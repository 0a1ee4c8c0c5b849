import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** What a queue tells of itself when it is asked. */
export interface WorkqueueState { readonly depth: number; readonly startedAt: Iterable<number>; readonly now: number }

/** The series of one queue. Durations are in seconds. */
export interface WorkqueueMetrics {
  added(): void;
  retried(): void;
  waited(seconds: number): void;
  worked(seconds: number): void;
}

const label = ['name'] as const;
const buckets = Array.from({ length: 12 }, (_, exponent) => 10e-9 * 10 ** exponent);
const queues = new WeakMap<Registry, Map<string, () => WorkqueueState>>();

/** The series of queues under client-go's names, in `registry`. A queue that takes the name of an older one takes its place. */
export function workqueueMetrics(registry: Registry, name: string, state: () => WorkqueueState): WorkqueueMetrics {
  let states = queues.get(registry);
  if (states === undefined) queues.set(registry, states = register(registry));
  states.set(name, state);
  const adds = registry.getSingleMetric('workqueue_adds_total') as Counter;
  const retries = registry.getSingleMetric('workqueue_retries_total') as Counter;
  const queued = registry.getSingleMetric('workqueue_queue_duration_seconds') as Histogram;
  const work = registry.getSingleMetric('workqueue_work_duration_seconds') as Histogram;
  const labels = { name };
  return {
    added: () => adds.inc(labels), retried: () => retries.inc(labels),
    waited: (seconds) => queued.observe(labels, seconds), worked: (seconds) => work.observe(labels, seconds),
  };
}

function register(registry: Registry): Map<string, () => WorkqueueState> {
  const states = new Map<string, () => WorkqueueState>();
  const registers = [registry];
  const gauge = (metric: string, help: string, value: (state: WorkqueueState) => number) => new Gauge({
    name: metric, help, labelNames: label, registers,
    collect() { for (const [name, state] of states) this.set({ name }, value(state())); },
  });
  new Counter({ name: 'workqueue_adds_total', help: 'Total number of adds handled by workqueue', labelNames: label, registers });
  new Counter({ name: 'workqueue_retries_total', help: 'Total number of retries handled by workqueue', labelNames: label, registers });
  new Histogram({ name: 'workqueue_queue_duration_seconds', help: 'How long in seconds an item stays in workqueue before being requested.', labelNames: label, buckets, registers });
  new Histogram({ name: 'workqueue_work_duration_seconds', help: 'How long in seconds processing an item from workqueue takes.', labelNames: label, buckets, registers });
  gauge('workqueue_depth', 'Current depth of workqueue', ({ depth }) => depth);
  gauge('workqueue_unfinished_work_seconds', 'How many seconds of work is in progress and not yet observed by work_duration.', ({ startedAt, now }) => {
    let sum = 0;
    for (const at of startedAt) sum += now - at;
    return sum / 1000;
  });
  gauge('workqueue_longest_running_processor_seconds', 'How many seconds the longest running processor for workqueue has been running.', ({ startedAt, now }) => {
    let longest = 0;
    for (const at of startedAt) longest = Math.max(longest, now - at);
    return longest / 1000;
  });
  return states;
}
