import type { Pod } from '@oarlock/api/types/core-v1';
import { expect, it } from 'vitest';
import { RuntimePodStatus } from '../../src/runtime/runtime-pod-status.ts';
import { generatePodStatus } from '../../src/status/pod-status.ts';

it('reads the rules and statuses of thousands of containers a few times each', () => {
  const count = 2_000;
  let reads = 0;
  const counted = <T extends object>(target: T): T =>
    new Proxy(target, {
      get(of, key, receiver): unknown {
        reads++;
        return Reflect.get(of, key, receiver);
      },
    });
  const named = Array.from({ length: count }, (_, i) => ({ name: `c${i}`, image: 'busybox' }));
  const waiting = { ready: false, restartCount: 0, imageID: '', state: { waiting: { reason: 'PodInitializing' } } };
  const pod: Pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace: 'default', name: 'web' },
    spec: { initContainers: named.map((each) => counted(each)), containers: [{ name: 'app', image: 'busybox' }] },
  };
  const status = generatePodStatus(pod, {
    before: { initContainerStatuses: named.map((each) => counted({ ...each, ...waiting })) },
    state: new RuntimePodStatus(),
    probeResults: { startup: () => undefined, readiness: () => undefined, liveness: () => undefined },
    failures: new Map(),
    messages: new Map(),
    runtimeName: 'containerd',
    ended: false,
    hostIPs: ['10.0.0.1'],
    now: 0,
    startedAt: 0,
  });
  expect(status.phase).toBe('Pending');
  expect(status.initContainerStatuses).toHaveLength(count);
  expect(reads).toBeLessThan(50 * count);
});
