import type { Clock } from '@oarlock/primitives/clock';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

const methods: ReadonlySet<string> = new Set(['OPTIONS', 'GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'TRACE', 'CONNECT']);
/** The first segments of the paths that the server has handlers for. Paths of `metrics` have two segments. */
const roots: ReadonlySet<string> = new Set([
  ...['healthz', 'pods', 'runningpods', 'stats', 'configz', 'logs', 'containerLogs'],
  ...['metrics', 'metrics/cadvisor', 'metrics/probes', 'metrics/resource'],
  ...['exec', 'attach', 'portForward'],
]);
const longRunning: ReadonlySet<string> = new Set(['exec', 'attach', 'portForward']);

/** Returns the value of the label `path`: the handler's root, or `other`. */
function pathBucket(url: string): string {
  const [first = '', second] = (url.split('?', 1)[0] ?? '').slice(1).split('/');
  const root = first === 'metrics' && second !== undefined && second !== '' ? `${first}/${second}` : first;
  return roots.has(root) ? root : 'other';
}

const labelNames = ['method', 'path', 'server_type', 'long_running'] as const;

/** The metrics of the kubelet's HTTPS server. */
export class HttpMetrics {
  readonly #clock: Clock;
  readonly #total: Counter<(typeof labelNames)[number]>;
  readonly #duration: Histogram<(typeof labelNames)[number]>;
  readonly #inflight: Gauge<(typeof labelNames)[number]>;

  constructor(registers: Registry[], clock: Clock) {
    this.#clock = clock;
    this.#total = new Counter({
      name: 'kubelet_http_requests_total',
      help: 'Number of the http requests received since the server started',
      registers,
      labelNames,
    });
    this.#duration = new Histogram({
      name: 'kubelet_http_requests_duration_seconds',
      help: 'Duration in seconds to serve http requests',
      registers,
      labelNames,
    });
    this.#inflight = new Gauge({
      name: 'kubelet_http_inflight_requests',
      help: 'Number of the inflight http requests',
      registers,
      labelNames,
    });
  }

  /** Counts a request. Returns the function to call at the end of the response, or of the session of an upgraded connection. */
  begin(method: string, url: string): () => void {
    const path = pathBucket(url);
    const labels = {
      method: methods.has(method) ? method : 'other',
      path,
      server_type: 'readwrite',
      long_running: String(longRunning.has(path)),
    };
    const from = this.#clock.monotonic();
    this.#total.inc(labels);
    this.#inflight.inc(labels);
    return () => {
      this.#inflight.dec(labels);
      this.#duration.observe(labels, (this.#clock.monotonic() - from) / 1000);
    };
  }
}
