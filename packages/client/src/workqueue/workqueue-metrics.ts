import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** The state of a queue at the time of a scrape. Times are milliseconds of the queue's clock. */
export interface WorkqueueState {
  readonly depth: number;
  readonly startedAt: Iterable<number>;
  readonly now: number;
}

/** Updates the series of one queue. Durations are in seconds. */
export interface WorkqueueMetrics {
  added(): void;
  retried(): void;
  queueDuration(seconds: number): void;
  workDuration(seconds: number): void;
}

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
export function workqueueMetrics(registry: Registry, name: string, state: () => WorkqueueState): WorkqueueMetrics {
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
}

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
  gauge('workqueue_depth', 'Keys that wait to be worked on', ({ depth }) => depth);
  gauge('workqueue_unfinished_work_seconds', 'Time spent so far on keys that are being worked on, all together', ({ startedAt, now }) => {
    let sum = 0;
    for (const at of startedAt) sum += now - at;
    return sum / 1000;
  });
  gauge(
    'workqueue_longest_running_processor_seconds',
    'Time spent so far on the key that has been worked on longest',
    ({ startedAt, now }) => {
      let longest = 0;
      for (const at of startedAt) longest = Math.max(longest, now - at);
      return longest / 1000;
    },
  );
  return {
    states,
    adds: new Counter({ name: 'workqueue_adds_total', help: 'Keys that were added', labelNames, registers }),
    retries: new Counter({ name: 'workqueue_retries_total', help: 'Keys that were added again after a failure', labelNames, registers }),
    queued: new Histogram({ name: 'workqueue_queue_duration_seconds', help: 'How long keys wait', labelNames, buckets, registers }),
    work: new Histogram({ name: 'workqueue_work_duration_seconds', help: 'How long work on a key takes', labelNames, buckets, registers }),
  };
}
