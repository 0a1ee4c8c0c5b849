import { isStatus } from '@oarlock/api/status';
import { samplesOf } from '@oarlock/primitives/prometheus-text';
import type { Client } from '@oarlock/spi/client';

/** The API server that answers, and what the process of this server measures. Absent where the user may not read it, or the server has none. */
export interface ControlPlaneFacts {
  readonly ready: boolean;
  /** The failed checks of `/readyz`. */
  readonly failedChecks: readonly string[];
  readonly requestsInFlight?: number;
  readonly longRunningRequests?: number;
  /** Pods that wait for the scheduler, by queue. */
  readonly pendingPods?: Readonly<Record<string, number>>;
  /** The keys that wait in the queues of controllers, without empty queues. */
  readonly queueDepths?: Readonly<Record<string, number>>;
}

const metrics = new Set([
  'workqueue_depth',
  'scheduler_pending_pods',
  'apiserver_current_inflight_requests',
  'apiserver_longrunning_requests',
  'apiserver_longrunning_gauge',
]);

/** Reads `/readyz?verbose` and `/metrics`, which have no watch. */
export async function readControlPlane(client: Client, signal?: AbortSignal): Promise<ControlPlaneFacts> {
  const [checks, text] = await Promise.all([read(client, '/readyz?verbose', signal), read(client, '/metrics', signal)]);
  const failedChecks = [...checks.text.matchAll(/^\[-\](\S+)/gm)].map(([, name = '']) => name);
  return { ready: checks.isOk, failedChecks, ...(text.isOk && measured(text.text)) };
}

async function read(
  client: Client,
  path: string,
  signal: AbortSignal | undefined,
): Promise<{ readonly isOk: boolean; readonly text: string }> {
  try {
    return { isOk: true, text: String(await client.raw('GET', path, undefined, signal && { signal })) };
  } catch (error) {
    if (isStatus(error)) return { isOk: false, text: error.message };
    throw error;
  }
}

/** Returns the sums of the metrics. Metrics that the server does not have are absent. */
export function measured(text: string): Omit<ControlPlaneFacts, 'ready' | 'failedChecks'> {
  const queueDepths: Record<string, number> = {};
  const pendingPods: Record<string, number> = {};
  let requestsInFlight: number | undefined;
  let longRunningRequests: number | undefined;
  for (const { name, labels, value } of samplesOf(text, (metric) => metrics.has(metric))) {
    if (name === 'workqueue_depth') {
      if (value > 0) queueDepths[labels['name'] ?? ''] = value;
    } else if (name === 'scheduler_pending_pods') pendingPods[labels['queue'] ?? ''] = value;
    else if (name === 'apiserver_current_inflight_requests') requestsInFlight = (requestsInFlight ?? 0) + value;
    else longRunningRequests = (longRunningRequests ?? 0) + value;
  }
  return {
    queueDepths,
    pendingPods,
    ...(requestsInFlight !== undefined && { requestsInFlight }),
    ...(longRunningRequests !== undefined && { longRunningRequests }),
  };
}
