import { samplesOf } from '@oarlock/primitives/prometheus-text';
import type { KubeObject } from '../../api/client.ts';

/** What the process of the API server measures. Absent where the server has no such metric. */
export interface ControlPlaneFigures {
  readonly watches?: number;
  readonly requestsInFlight?: number;
  readonly storedObjects?: number;
  /** Pods in the queues of the scheduler and keys in the queues of controllers; without empty queues, the longest first. */
  readonly queues?: readonly { readonly name: string; readonly depth: number }[];
}

const metrics = new Set([
  'apiserver_longrunning_requests',
  'apiserver_current_inflight_requests',
  'apiserver_resource_objects',
  'apiserver_storage_objects',
  'scheduler_pending_pods',
  'workqueue_depth',
]);

/** Reads the figures from the text of `/metrics`. */
export function controlPlaneFigures(text: string): ControlPlaneFigures {
  const sums = new Map<string, number>();
  const queues: { readonly name: string; readonly depth: number }[] = [];
  let hasQueues = false;
  for (const { name, labels, value } of samplesOf(text, (metric) => metrics.has(metric))) {
    if (name === 'workqueue_depth' || name === 'scheduler_pending_pods') {
      hasQueues = true;
      const queue = name === 'workqueue_depth' ? (labels['name'] ?? '') : `scheduler: ${labels['queue'] ?? ''}`;
      if (value > 0) queues.push({ name: queue, depth: value });
    } else if (name !== 'apiserver_longrunning_requests' || labels['verb'] === 'WATCH') sums.set(name, (sums.get(name) ?? 0) + value);
  }
  const [watches, requestsInFlight] = [sums.get('apiserver_longrunning_requests'), sums.get('apiserver_current_inflight_requests')];
  const storedObjects = sums.get('apiserver_resource_objects') ?? sums.get('apiserver_storage_objects');
  return {
    ...(watches !== undefined && { watches }),
    ...(requestsInFlight !== undefined && { requestsInFlight }),
    ...(storedObjects !== undefined && { storedObjects }),
    ...(hasQueues && { queues: queues.toSorted((a, b) => b.depth - a.depth) }),
  };
}

export interface Lease extends KubeObject {
  readonly spec?: { readonly holderIdentity?: string };
}

const electedComponents = ['kube-controller-manager', 'kube-scheduler', 'cloud-controller-manager'];

/** Returns the leaders of the components that elect one. */
export const leadersOf = (leases: readonly Lease[]): readonly { readonly component: string; readonly holder: string }[] =>
  leases
    .map(({ metadata, spec }) => ({ component: metadata.name, holder: spec?.holderIdentity ?? '' }))
    .filter(({ component, holder }) => electedComponents.includes(component) && holder !== '')
    .toSorted((a, b) => (a.component < b.component ? -1 : 1));
