import type { Pod } from '@oarlock/api/types/core-v1';
import { expect, it } from 'vitest';
import { containerStatuses } from '../src/container-status.ts';
import { PodState } from '../src/pod-state.ts';

const container = { name: 'app', image: 'busybox' };
const pod: Pod = { apiVersion: 'v1', kind: 'Pod', metadata: { namespace: 'default', name: 'web' }, spec: { containers: [container] } };
const running = {
  ...container,
  imageID: 'i',
  ready: true,
  restartCount: 2,
  containerID: 'containerd://a',
  state: { running: { startedAt: '2026-01-01T00:00:00Z' } },
};

it('does not say when a container ended whose end nobody saw', () => {
  const [status] = containerStatuses(pod, 'regular', [container], {
    before: { containerStatuses: [running] },
    state: new PodState(),
    verdicts: { startup: () => undefined, readiness: () => undefined, liveness: () => undefined },
    failures: new Map(),
    messages: new Map(),
    runtimeName: 'containerd',
    ended: false,
  });
  expect(status).toMatchObject({ restartCount: 3, ready: false });
  // as Kubernetes has it: who prints pods shows no "56y ago"
  expect(status?.lastState).toEqual({
    terminated: {
      exitCode: 137,
      reason: 'ContainerStatusUnknown',
      message: 'The container could not be located when the pod was deleted.  The container used to be Running',
    },
  });
});
