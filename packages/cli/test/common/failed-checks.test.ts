import { expect, it } from 'vitest';
import { failedChecks } from '../../src/common/failed-checks.ts';

it('names the failed checks, without those that do not count', () => {
  const text = [
    '[+]ping ok',
    '[-]etcd failed: reason withheld',
    '[-]plugin-admission-a unhealthy, not counted: reason withheld',
    '[-]poststarthook/rbac/bootstrap-roles failed: not finished',
    'readyz check failed',
  ].join('\n');
  expect(failedChecks(text)).toEqual(['etcd', 'poststarthook/rbac/bootstrap-roles']);
  expect(failedChecks('[-]etcd')).toEqual(['etcd']);
  expect(failedChecks('ok')).toEqual([]);
});
