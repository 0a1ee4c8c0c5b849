import { describe, expect, it } from 'vitest';
import { stateDetails, stateOf } from '../../../src/views/object/container-state.ts';
import type { ContainerStatus } from '../../../src/views/object/workload-kinds.ts';

const now = Date.parse('2026-01-01T00:10:00Z');
const at = '2026-01-01T00:07:00Z';
const crashed = { terminated: { reason: 'Error', exitCode: 3, finishedAt: at } };

describe('the state of a container', () => {
  it.each<[string, Omit<ContainerStatus, 'name'>, string | undefined, string | undefined]>([
    ['runs', { ready: true, state: { running: { startedAt: at } } }, 'ok', 'Running for 3m'],
    ['is not ready', { state: { running: { startedAt: at } } }, 'warning', 'Running for 3m, not ready'],
    ['is created', { state: { waiting: { reason: 'ContainerCreating' } } }, 'pending', 'ContainerCreating'],
    ['waits after a crash', { state: { waiting: { reason: 'CrashLoopBackOff' } }, lastState: crashed }, 'error', 'CrashLoopBackOff'],
    ['failed', { state: crashed }, 'error', 'Error, exit code 3, 3m ago'],
    ['was killed', { state: { terminated: { reason: 'Error', exitCode: 137, signal: 9 } } }, 'error', 'Error, signal 9'],
    ['is complete', { state: { terminated: { reason: 'Completed', exitCode: 0 } } }, 'ok', 'Completed, exit code 0'],
    ['has none yet', {}, undefined, undefined],
  ])('that %s', (_, status, health, label) => {
    const state = stateOf({ name: 'c', ...status }, now);
    expect([state?.health, state?.label]).toEqual([health, label]);
  });

  it('names the message of the kubelet, the restarts, and how the previous instance ended', () => {
    const status = {
      name: 'c',
      restartCount: 2,
      state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 20s restarting' } },
      lastState: { terminated: { ...crashed.terminated, message: 'no database' } },
    };
    expect(stateDetails(status, now)).toEqual([
      'back-off 20s restarting',
      '2 restarts',
      'The previous instance ended: Error, exit code 3, 3m ago',
      'no database',
    ]);
    expect(stateDetails({ name: 'c', state: { running: { startedAt: at } } }, now)).toEqual([]);
  });
});
