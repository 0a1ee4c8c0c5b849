import { failure } from '@oarlock/api/status';
import type { Client } from '@oarlock/spi/client';
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
      watches: 30,
    });
  });

  it('leaves out what another server does not have: queues of a scheduler or controllers in other processes', async () => {
    const api = memoryApi({ clock: new FakeClock() });
    api.paths.set('/readyz', 'ok');
    api.paths.set('/metrics', 'apiserver_current_inflight_requests{request_kind="readOnly"} 2\nworkqueue_depth{name="crd"} 0\n');
    expect(await readControlPlane(api.client())).toEqual({ ready: true, failedChecks: [], requestsInFlight: 2, queueDepths: {} });
  });

  it('does not call a server unready that does not show its checks, and returns why there are no figures', async () => {
    const api = memoryApi({ clock: new FakeClock() });
    expect(await readControlPlane(api.client())).toEqual({ failedChecks: [], missing: 'the server serves no /metrics' });
    const forbidden = failure('Forbidden', 'User "ada" cannot get path "/metrics"');
    const client: Pick<Client, 'raw'> = { raw: () => Promise.reject(forbidden) };
    expect(await readControlPlane(client as Client)).toEqual({ failedChecks: [], missing: forbidden.message });
    const unready: Pick<Client, 'raw'> = {
      raw: (_, path) => (path.startsWith('/metrics?') ? Promise.resolve('') : Promise.reject(failure('InternalError', '[-]etcd failed'))),
    };
    expect(await readControlPlane(unready as Client)).toEqual({ ready: false, failedChecks: ['etcd'] });
  });
});
