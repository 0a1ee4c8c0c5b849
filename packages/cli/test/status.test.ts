import { expect, it } from 'vitest';
import { textOf } from '../src/status.ts';

const process = { pid: 7, roles: ['kubelet'], ready: true, server: 'https://127.0.0.1:6443' };

it('prints the process alone without an API server', () => {
  expect(textOf(process)).toBe('process 7: kubelet; ready; https://127.0.0.1:6443');
});

it('prints checks, plugins with their faults, and nodes without isolation', () => {
  const faults = { error: 2, deadline: 0, late: 0, ended: 1 };
  const apiServer = {
    checks: ['[+]ping ok', 'readyz check passed'],
    plugins: [{ name: 'a', slot: 'admission/v1', healthy: false, suspended: false, reason: 'it threw', faults }],
    nodesWithoutIsolation: [{ name: 'n', message: 'no namespaces' }],
  };
  expect(
    textOf({ ...process, apiServer })
      .split('\n')
      .slice(1),
  ).toEqual([
    '[+]ping ok',
    'readyz check passed',
    'plugin a: unhealthy: it threw (faults since the start: error 2, ended 1)',
    'node n: no namespaces',
  ]);
});
