import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { readControlPlane } from '../../../src/status/top/control-plane.ts';

const metrics = `# TYPE workqueue_depth gauge
workqueue_depth{name="job"} 0
workqueue_depth{name="deployment"} 4
scheduler_pending_pods{queue="active"} 2
apiserver_current_inflight_requests{request_kind="mutating"} 1
apiserver_current_inflight_requests{request_kind="readOnly"} 2
apiserver_longrunning_requests{verb="WATCH"} 30
`;

describe('readControlPlane', () => {
  it('sums the metrics', async () => {
    const api = memoryApi({ clock: new FakeClock() });
    api.paths.set('/readyz', '[+]ping ok\n');
    api.paths.set('/metrics', metrics);
    expect(await readControlPlane(api.client())).toEqual({
      ready: true,
      failedChecks: [],
      queueDepths: { deployment: 4 },
      pendingPods: { active: 2 },
      requestsInFlight: 3,
      longRunningRequests: 30,
    });
  });

  it('reads what another server serves', async () => {
    const api = memoryApi({ clock: new FakeClock() });
    expect(await readControlPlane(api.client())).toEqual({ ready: false, failedChecks: [] });
  });
});
