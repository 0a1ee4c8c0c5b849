import { describe, expect, it } from 'vitest';
import { controlPlaneFigures } from '../../src/component-helpers/control-plane-figures.ts';

const sample = (name: string, value: number, labels: Readonly<Record<string, string>> = {}) => ({ name, labels, value });

describe('controlPlaneFigures', () => {
  it('returns the sums of the metrics, and the queues that are not empty', () => {
    expect(
      controlPlaneFigures([
        sample('apiserver_longrunning_requests', 30, { verb: 'WATCH', resource: 'pods' }),
        sample('apiserver_longrunning_requests', 4, { verb: 'WATCH', resource: 'nodes' }),
        sample('apiserver_longrunning_requests', 2, { verb: 'CONNECT' }),
        sample('apiserver_current_inflight_requests', 1, { request_kind: 'mutating' }),
        sample('apiserver_current_inflight_requests', 2, { request_kind: 'readOnly' }),
        sample('apiserver_resource_objects', 10, { resource: 'pods' }),
        sample('apiserver_resource_objects', 1, { resource: 'nodes' }),
        sample('apiserver_storage_objects', 10, { resource: 'pods' }),
        sample('apiserver_storage_size_bytes', 4096, { storage_cluster_id: 'embedded' }),
        sample('scheduler_pending_pods', 7, { queue: 'unschedulable' }),
        sample('scheduler_pending_pods', 0, { queue: 'active' }),
        sample('workqueue_depth', 9, { name: 'deployment' }),
        sample('workqueue_depth', 0, { name: 'job' }),
        sample('other', 5),
      ]),
    ).toEqual({
      requestsInFlight: 3,
      longRunningRequests: 36,
      watches: 34,
      storedObjects: 11,
      storageBytes: 4096,
      pendingPods: { unschedulable: 7, active: 0 },
      queueDepths: { deployment: 9 },
    });
  });

  it('leaves out what a server does not have, and reads the earlier names of metrics', () => {
    expect(controlPlaneFigures([])).toEqual({});
    expect(controlPlaneFigures([sample('workqueue_depth', 0, { name: 'job' })])).toEqual({ queueDepths: {} });
    expect(controlPlaneFigures([sample('apiserver_storage_objects', 3), sample('apiserver_longrunning_gauge', 2)])).toEqual({
      storedObjects: 3,
      longRunningRequests: 2,
    });
  });
});
