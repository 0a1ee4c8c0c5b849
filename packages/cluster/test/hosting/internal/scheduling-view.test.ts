import { skip, success, type CycleState, type PodInfo, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { expect, it } from 'vitest';
import { schedulingView } from '../../../src/hosting/internal/scheduling-view.ts';

const none = { milliCpu: 0, memory: 0, ephemeralStorage: 0, pods: 0, scalar: new Map<string, number>() };
const pod: PodInfo = { pod: {}, key: 'd/p', requests: none, nonZeroRequests: none };
const state: CycleState = {
  snapshot: {
    nodes: [],
    podAffinityGroups: [],
    get: () => undefined,
    podCountByNode: () => new Map(),
    podCountByLabel: () => new Map(),
    imageState: () => undefined,
  },
  read: () => undefined,
  write: () => undefined,
};

it('schedulingView skips preBindPreFlight for a version without preBind', () => {
  let version: SchedulingPlugin = { name: 'Mine', filter: () => success };
  const { plugin } = schedulingView(
    version,
    (call) => call(version),
    () => version,
  );
  const announced = () => plugin.preBindPreFlight?.(state, pod, 'n').code;
  expect(announced()).toBe('skip');
  version = { name: 'Mine', preBind: async () => success };
  expect(announced()).toBe('success');
  version = { name: 'Mine', preBindPreFlight: () => skip, preBind: async () => success };
  expect(announced()).toBe('skip');
});
