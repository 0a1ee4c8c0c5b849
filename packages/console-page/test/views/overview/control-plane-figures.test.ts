import { describe, expect, it } from 'vitest';
import { controlPlaneFigures, leadersOf, type Lease } from '../../../src/views/overview/control-plane-figures.ts';

const metrics = `apiserver_longrunning_requests{verb="WATCH",resource="pods"} 30
apiserver_longrunning_requests{verb="WATCH",resource="nodes"} 4
apiserver_longrunning_requests{verb="CONNECT"} 2
apiserver_current_inflight_requests{request_kind="mutating"} 1
apiserver_current_inflight_requests{request_kind="readOnly"} 2
apiserver_resource_objects{resource="pods"} 10
apiserver_resource_objects{resource="nodes"} 1
apiserver_storage_objects{resource="pods"} 10
scheduler_pending_pods{queue="unschedulable"} 7
workqueue_depth{name="deployment"} 9
workqueue_depth{name="job"} 0
`;

describe('the figures of the control plane', () => {
  it('are sums of its metrics, and the queues that are not empty', () => {
    expect(controlPlaneFigures(metrics)).toEqual({
      watches: 34,
      requestsInFlight: 3,
      storedObjects: 11,
      queues: [
        { name: 'deployment', depth: 9 },
        { name: 'scheduler: unschedulable', depth: 7 },
      ],
    });
  });

  it('are absent where a server does not have them', () => {
    expect(controlPlaneFigures('apiserver_storage_objects{resource="pods"} 3\nother 1\n')).toEqual({ storedObjects: 3 });
    expect(controlPlaneFigures('')).toEqual({});
    expect(controlPlaneFigures('workqueue_depth{name="job"} 0\n')).toEqual({ queues: [] });
  });

  it('name the leaders', () => {
    const lease = (name: string, holderIdentity?: string): Lease => ({
      metadata: { name, uid: name, resourceVersion: '1' },
      ...(holderIdentity !== undefined && { spec: { holderIdentity } }),
    });
    expect(
      leadersOf([
        lease('kube-scheduler', 'b_1'),
        lease('other', 'x'),
        lease('cloud-controller-manager'),
        lease('kube-controller-manager', 'a_1'),
      ]),
    ).toEqual([
      { component: 'kube-controller-manager', holder: 'a_1' },
      { component: 'kube-scheduler', holder: 'b_1' },
    ]);
  });
});
