import { isStatus } from '@oarlock/api/status';
import { samplesOf } from '@oarlock/primitives/prometheus-text';
import type { Client } from '@oarlock/spi/client';
import { failedChecks } from '../failed-checks.ts';

/** The API server that answers, and what the process of this server measures. Absent where the user may not read it, or the server has none. */
export interface ControlPlaneFacts {
  /** Absent if the server does not show its checks to the user. */
  readonly ready?: boolean;
  /** The failed checks of `/readyz`. */
  readonly failedChecks: readonly string[];
  readonly requestsInFlight?: number;
  readonly longRunningRequests?: number;
  /** Pods that wait for the scheduler, by queue. */
  readonly pendingPods?: Readonly<Record<string, number>>;
  /** The keys that wait in the queues of controllers, without empty queues. */
  readonly queueDepths?: Readonly<Record<string, number>>;
  /** Why there are no figures, if the server does not show them to the user. */
  readonly missing?: string;
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
  const hidden = text.code !== undefined && !text.isOk ? { missing: hiddenBecause('/metrics', text) } : {};
  // a server that is not ready answers 500 with the failed checks; other rejections do not depend on the state of the server
  const readiness = checks.isOk || !isHidden(checks.code) ? { ready: checks.isOk } : {};
  return { ...readiness, failedChecks: failedChecks(checks.text), ...(text.isOk ? measured(text.text) : hidden) };
}

const isHidden = (code: number | undefined): boolean => code === 401 || code === 403 || code === 404;
const hiddenBecause = (path: string, { code, text }: ReadText): string => (code === 404 ? `the server serves no ${path}` : text);

interface ReadText {
  readonly isOk: boolean;
  /** The status code of a rejection. */
  readonly code?: number;
  readonly text: string;
}

async function read(client: Client, path: string, signal: AbortSignal | undefined): Promise<ReadText> {
  try {
    return { isOk: true, text: String(await client.raw('GET', path, undefined, signal && { signal })) };
  } catch (error) {
    if (isStatus(error)) return { isOk: false, code: error.code, text: error.message };
    throw error;
  }
}

/** Returns the sums of the metrics. Metrics that the server does not have are absent. */
export function measured(text: string): Omit<ControlPlaneFacts, 'ready' | 'failedChecks'> {
  let queueDepths: Record<string, number> | undefined;
  let pendingPods: Record<string, number> | undefined;
  let requestsInFlight: number | undefined;
  let longRunningRequests: number | undefined;
  for (const { name, labels, value } of samplesOf(text, (metric) => metrics.has(metric))) {
    if (name === 'workqueue_depth') {
      queueDepths = { ...queueDepths, ...(value > 0 && { [labels['name'] ?? '']: value }) };
    } else if (name === 'scheduler_pending_pods') pendingPods = { ...pendingPods, [labels['queue'] ?? '']: value };
    else if (name === 'apiserver_current_inflight_requests') requestsInFlight = (requestsInFlight ?? 0) + value;
    else longRunningRequests = (longRunningRequests ?? 0) + value;
  }
  return {
    ...(queueDepths !== undefined && { queueDepths }),
    ...(pendingPods !== undefined && { pendingPods }),
    ...(requestsInFlight !== undefined && { requestsInFlight }),
    ...(longRunningRequests !== undefined && { longRunningRequests }),
  };
}
