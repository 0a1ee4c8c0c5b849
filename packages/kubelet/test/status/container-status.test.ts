import type { Pod } from '@oarlock/api/types/core-v1';
import { expect, it } from 'vitest';
import { generateContainerStatuses } from '../../src/status/container-status.ts';
import { RuntimePodStatus } from '../../src/runtime/runtime-pod-status.ts';

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

it('a container whose exit was not observed has no termination time', () => {
  const [status] = generateContainerStatuses(pod, {
    kind: 'regular',
    containers: [container],
    inputs: {
      before: { containerStatuses: [running] },
      state: new RuntimePodStatus(),
      probeResults: { startup: () => undefined, readiness: () => undefined, liveness: () => undefined },
      failures: new Map(),
      messages: new Map(),
      runtimeName: 'containerd',
      ended: false,
    },
  });
  expect(status).toMatchObject({ restartCount: 3, ready: false });
  // as upstream: kubectl must not show "56y ago"
  expect(status?.lastState).toEqual({
    terminated: {
      exitCode: 137,
      reason: 'ContainerStatusUnknown',
      message: 'The container could not be located when the pod was deleted.  The container used to be Running',
    },
  });
});

it('texts of a runtime of megabytes are bounded', () => {
  const text = 'x'.repeat(4_000_000);
  const state = new RuntimePodStatus();
  const inputs = {
    before: {},
    state,
    probeResults: { startup: () => undefined, readiness: () => undefined, liveness: () => undefined },
    failures: new Map([['app', { reason: 'CreateContainerError', message: text }]]),
    messages: new Map([['a', text]]),
    runtimeName: 'containerd',
    ended: false,
  };
  const status = () => generateContainerStatuses(pod, { kind: 'regular', containers: [container], inputs })[0];
  expect(status()?.state?.waiting?.message).toHaveLength(8192);
  const exited = {
    id: 'a',
    sandboxId: 's',
    metadata: { name: 'app', attempt: 0 },
    image: 'busybox',
    imageRef: 'i',
    state: 'EXITED',
  } as const;
  state.setContainer({
    ...exited,
    ...{ createdAt: 0, labels: {}, annotations: {}, exitCode: 1, reason: text, message: text, mounts: [], logPath: '' },
  });
  const { terminated } =
    generateContainerStatuses(pod, { kind: 'regular', containers: [container], inputs: { ...inputs, ended: true } })[0]?.state ?? {};
  expect([terminated?.reason?.length, terminated?.message?.length]).toEqual([1024, 8192]);
});
