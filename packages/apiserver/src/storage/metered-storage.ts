import type { Clock } from '@oarlock/primitives/clock';
import type { CommitResult, Precondition, StorageDriver, Write } from '@oarlock/spi/storage';
import { Counter, Histogram, type Registry } from 'prom-client';

/** The buckets of upstream's histogram, in seconds. */
const buckets = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60];
const labelNames = ['operation', 'group', 'resource'] as const;
const registry = '/registry/';
const maxSeries = 4096;

type Operation = 'create' | 'update' | 'delete' | 'get' | 'list';
interface Series {
  done(seconds: number): void;
  failed(): void;
}

/** Returns a storage driver that records upstream's etcd metrics for all calls, whichever driver it wraps. */
export function withMetrics(driver: StorageDriver, metrics: Registry, clock: Clock): StorageDriver {
  const measured = new StorageMetrics(metrics, clock);
  const { skipTo, currentRevision } = driver;
  return {
    traits: driver.traits,
    get: (key, options) => measured.run('get', key, () => driver.get(key, options)),
    range: (options) => measured.run('list', options.prefix, () => driver.range(options)),
    commit: (writes, expect) =>
      measured.run(operationOf(writes, expect), writes[0]?.key ?? '', (): Promise<CommitResult> => driver.commit(writes, expect)),
    watch: (prefix, options) => driver.watch(prefix, options),
    requestProgress: () => driver.requestProgress(),
    compact: (revision) => driver.compact(revision),
    ...(currentRevision !== undefined && { currentRevision: () => currentRevision.call(driver) }),
    ...(skipTo !== undefined && { skipTo: (revision) => skipTo.call(driver, revision) }),
  };
}

function operationOf([first]: readonly Write[], expect: readonly Precondition[]): Operation {
  if (first === undefined) return 'update';
  if (first.value === null) return 'delete';
  return expect.some(({ key, revision }) => key === first.key && revision === 0) ? 'create' : 'update';
}

class StorageMetrics {
  readonly #clock: Clock;
  readonly #durations: Histogram<(typeof labelNames)[number]>;
  readonly #requests: Counter<(typeof labelNames)[number]>;
  readonly #errors: Counter<(typeof labelNames)[number]>;
  readonly #series = new Map<string, Series>();

  constructor(metrics: Registry, clock: Clock) {
    const registers = [metrics];
    this.#clock = clock;
    this.#durations = new Histogram({
      name: 'etcd_request_duration_seconds',
      help: 'Storage request latency in seconds for each operation and resource.',
      labelNames,
      buckets,
      registers,
    });
    this.#requests = new Counter({
      name: 'etcd_requests_total',
      help: 'Storage requests by operation and resource.',
      labelNames,
      registers,
    });
    this.#errors = new Counter({
      name: 'etcd_request_errors_total',
      help: 'Failed storage requests by operation and resource.',
      labelNames,
      registers,
    });
  }

  async run<T>(operation: Operation, key: string, call: () => Promise<T>): Promise<T> {
    const series = this.#of(operation, key);
    const began = this.#clock.monotonic();
    try {
      return await call();
    } catch (error) {
      series.failed();
      throw error;
    } finally {
      series.done((this.#clock.monotonic() - began) / 1000);
    }
  }

  #of(operation: Operation, key: string): Series {
    // `/registry/deployments.apps/default/web`
    const end = key.startsWith(registry) ? key.indexOf('/', registry.length) : -1;
    const name = end < 0 ? '' : key.slice(registry.length, end);
    const id = `${operation} ${name}`;
    const known = this.#series.get(id);
    if (known !== undefined) return known;
    const dot = name.indexOf('.');
    const labels = { operation, group: dot < 0 ? '' : name.slice(dot + 1), resource: dot < 0 ? name : name.slice(0, dot) };
    const [durations, requests, errors] = [this.#durations.labels(labels), this.#requests.labels(labels), this.#errors];
    const series: Series = {
      done: (seconds) => {
        requests.inc();
        durations.observe(seconds);
      },
      failed: () => {
        errors.inc(labels);
      },
    };
    if (this.#series.size < maxSeries) this.#series.set(id, series);
    return series;
  }
}
