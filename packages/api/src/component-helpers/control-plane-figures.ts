/** A sample of the Prometheus text format. */
interface MetricSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** What the process of an API server measures. A figure is absent where the server has no such metric. */
export interface ControlPlaneFigures {
  readonly requestsInFlight?: number;
  /** Watches, logs and other streams. */
  readonly longRunningRequests?: number;
  readonly watches?: number;
  readonly storedObjects?: number;
  /** The size of the storage on disk, in bytes. */
  readonly storageBytes?: number;
  /** Pods that wait for the scheduler, by queue. */
  readonly pendingPods?: Readonly<Record<string, number>>;
  /** The keys that wait in the queues of controllers, without empty queues. */
  readonly queueDepths?: Readonly<Record<string, number>>;
}

/** The metrics that `controlPlaneFigures` sums. */
export const controlPlaneMetrics: ReadonlySet<string> = new Set([
  'apiserver_current_inflight_requests',
  'apiserver_longrunning_requests',
  'apiserver_longrunning_gauge', // the earlier name of apiserver_longrunning_requests
  'apiserver_resource_objects',
  'apiserver_storage_objects', // the earlier name of apiserver_resource_objects
  'apiserver_storage_size_bytes',
  'scheduler_pending_pods',
  'workqueue_depth',
]);

/**
 * The path and query of `controlPlaneMetrics`. Oarlock returns these only, because the metrics of a process with a thousand nodes take a third of a second to
 * collect; kube-apiserver returns all.
 */
export const controlPlaneMetricsPath = `/metrics?${[...controlPlaneMetrics].map((name) => `name[]=${name}`).join('&')}`;

/** Returns the sums of the metrics in `controlPlaneMetrics`. Other samples are ignored. */
export function controlPlaneFigures(samples: Iterable<MetricSample>): ControlPlaneFigures {
  const sums = new Map<string, number>();
  const add = (key: string, value: number) => sums.set(key, (sums.get(key) ?? 0) + value);
  let pendingPods: Record<string, number> | undefined;
  let queueDepths: Record<string, number> | undefined;
  for (const { name, labels, value } of samples) {
    if (name === 'workqueue_depth') {
      queueDepths ??= {};
      if (value > 0) queueDepths[labels['name'] ?? ''] = value;
    } else if (name === 'scheduler_pending_pods') {
      pendingPods ??= {};
      pendingPods[labels['queue'] ?? ''] = value;
    } else if (controlPlaneMetrics.has(name)) {
      add(name, value);
      if (name === 'apiserver_longrunning_requests' && labels['verb'] === 'WATCH') add('watches', value);
    }
  }
  const figures = {
    requestsInFlight: sums.get('apiserver_current_inflight_requests'),
    longRunningRequests: sums.get('apiserver_longrunning_requests') ?? sums.get('apiserver_longrunning_gauge'),
    watches: sums.get('watches'),
    storedObjects: sums.get('apiserver_resource_objects') ?? sums.get('apiserver_storage_objects'),
    storageBytes: sums.get('apiserver_storage_size_bytes'),
    pendingPods,
    queueDepths,
  };
  return Object.fromEntries(Object.entries(figures).filter(([, value]) => value !== undefined));
}
