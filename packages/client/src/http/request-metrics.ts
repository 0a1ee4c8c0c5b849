import { Counter, Histogram, type Registry } from 'prom-client';

/** Client-go's buckets of the request latency. Seconds. */
const buckets = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];

/** Receives the outcome of requests that a client sends over HTTP. */
export interface RequestObserver {
  /** Called for each attempt. `code` is the status of the response; undefined if there was none. */
  attempted(method: string, host: string, code: number | undefined): void;
  /** Called for each request other than a watch, with its time including retries in seconds. */
  requested(method: string, host: string, seconds: number): void;
}

/** The metrics of HTTP requests under client-go's names. Clients of a process share them; in-process requests are not counted. */
export class RequestMetrics implements RequestObserver {
  readonly #total: Counter<'code' | 'method' | 'host'>;
  readonly #duration: Histogram<'verb' | 'host'>;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#total = new Counter({
      name: 'rest_client_requests_total',
      help: 'Number of HTTP requests, partitioned by status code, method, and host.',
      registers,
      labelNames: ['code', 'method', 'host'],
    });
    this.#duration = new Histogram({
      name: 'rest_client_request_duration_seconds',
      help: 'Request latency in seconds. Broken down by verb, and host.',
      registers,
      buckets,
      labelNames: ['verb', 'host'],
    });
  }

  attempted(method: string, host: string, code: number | undefined): void {
    this.#total.inc({ code: code === undefined ? '<error>' : String(code), method, host });
  }

  requested(method: string, host: string, seconds: number): void {
    this.#duration.observe({ verb: method, host }, seconds);
  }
}
