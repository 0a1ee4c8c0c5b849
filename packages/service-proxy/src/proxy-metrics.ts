import { Counter, Gauge, Histogram, linearBuckets, type Registry } from 'prom-client';

/** The buckets of upstream's histogram of network programming, in seconds. */
const programmingBuckets = [
  ...linearBuckets(0.25, 0.25, 2),
  ...linearBuckets(1, 1, 59),
  ...linearBuckets(60, 5, 12),
  ...linearBuckets(120, 30, 7),
];

/** The metrics of the proxy, with the metric names of kube-proxy. */
export class ProxyMetrics {
  readonly serviceChanges: Counter;
  readonly endpointChanges: Counter;
  readonly #duration: Histogram;
  readonly #programming: Histogram;
  readonly #last: Gauge;

  constructor(registry: Registry) {
    const registers = [registry];
    this.serviceChanges = new Counter({
      name: 'kubeproxy_sync_proxy_rules_service_changes_total',
      help: 'Cumulative proxy rules Service changes',
      registers,
    });
    this.endpointChanges = new Counter({
      name: 'kubeproxy_sync_proxy_rules_endpoint_changes_total',
      help: 'Cumulative proxy rules Endpoint changes',
      registers,
    });
    this.#duration = new Histogram({
      name: 'kubeproxy_sync_proxy_rules_duration_seconds',
      help: 'SyncProxyRules latency in seconds',
      buckets: [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384],
      registers,
    });
    this.#programming = new Histogram({
      name: 'kubeproxy_network_programming_duration_seconds',
      help: 'In Cluster Network Programming Latency in seconds: from the change of a pod or Service until the rules of this node contain it',
      buckets: programmingBuckets,
      registers,
    });
    this.#last = new Gauge({
      name: 'kubeproxy_sync_proxy_rules_last_timestamp_seconds',
      help: 'The last time proxy rules were successfully synced',
      registers,
    });
  }

  observeSync(seconds: number, at: number): void {
    this.#duration.observe(seconds);
    this.#last.set(at);
  }

  observeProgramming(seconds: number): void {
    this.#programming.observe(seconds);
  }
}
