import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

import type { WorkqueueMetrics, WorkqueueState } from '@oarlock/primitives/workqueue/workqueue';

interface Series {
  readonly states: Map<string, () => WorkqueueState>;
  readonly adds: Counter;
  readonly retries: Counter;
  readonly queued: Histogram;
  readonly work: Histogram;
}

const labelNames = ['name'] as const;
const buckets = Array.from({ length: 12 }, (_, exponent) => 10e-9 * 10 ** exponent);
const series = new WeakMap<Registry, Series>();

/** Registers the series of a queue under client-go's names. A queue with the name of an older one replaces it. */
export const workqueueMetrics =
  (registry: Registry, name: string) =>
  (state: () => WorkqueueState): WorkqueueMetrics => {
    let known = series.get(registry);
    if (known === undefined) series.set(registry, (known = register(registry)));
    const { states, adds, retries, queued, work } = known;
    states.set(name, state);
    const labels = { name };
    return {
      added: () => adds.inc(labels),
      retried: () => retries.inc(labels),
      queueDuration: (seconds) => queued.observe(labels, seconds),
      workDuration: (seconds) => work.observe(labels, seconds),
    };
  };

function register(registry: Registry): Series {
  const states = new Map<string, () => WorkqueueState>();
  const registers = [registry];
  const gauge = (metric: string, help: string, value: (state: WorkqueueState) => number) =>
    new Gauge({
      name: metric,
      help,
      labelNames,
      registers,
      collect() {
        for (const [name, state] of states) this.set({ name }, value(state()));
      },
    });
  gauge('workqueue_depth', 'Current depth of workqueue', ({ depth }) => depth);
  gauge(
    'workqueue_unfinished_work_seconds',
    "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
    ({ startedAt, now }) => {
      let sum = 0;
      for (const at of startedAt) sum += now - at;
      return sum / 1000;
    },
  );
  gauge(
    'workqueue_longest_running_processor_seconds',
    'How many seconds has the longest running processor for workqueue been running.',
    ({ startedAt, now }) => {
      let longest = 0;
      for (const at of startedAt) longest = Math.max(longest, now - at);
      return longest / 1000;
    },
  );
  return {
    states,
    adds: new Counter({ name: 'workqueue_adds_total', help: 'Total number of adds handled by workqueue', labelNames, registers }),
    retries: new Counter({ name: 'workqueue_retries_total', help: 'Total number of retries handled by workqueue', labelNames, registers }),
    queued: new Histogram({
      name: 'workqueue_queue_duration_seconds',
      help: 'How long in seconds an item stays in workqueue before being requested.',
      labelNames,
      buckets,
      registers,
    }),
    work: new Histogram({
      name: 'workqueue_work_duration_seconds',
      help: 'How long in seconds processing an item from workqueue takes.',
      labelNames,
      buckets,
      registers,
    }),
  };
}
