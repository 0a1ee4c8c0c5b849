import { ruleMismatches } from '@oarlock/api/rbac/policy-rules';
import { describe, expect, it } from 'vitest';

describe('ruleMismatches', () => {
  const rule = { verbs: ['get', 'list'], apiGroups: ['apps'], resources: ['deployments', '*/scale'], resourceNames: ['web'] };
  it.each([
    [{ verb: 'get', group: 'apps', resource: 'deployments', name: 'web' }, []],
    [{ verb: 'get', group: 'apps', resource: 'statefulsets/scale', name: 'web' }, []],
    [{ verb: 'delete', group: 'apps', resource: 'deployments', name: 'web' }, ['verbs']],
    [{ verb: 'get', group: '', resource: 'pods', name: 'web' }, ['apiGroups', 'resources']],
    [{ verb: 'list', group: 'apps', resource: 'deployments' }, ['resourceNames']],
    [{ verb: 'get', path: '/metrics' }, ['nonResourceURLs']],
  ])('%j: %j', (request, expected) => {
    expect(ruleMismatches(rule, request)).toEqual(expected);
  });

  it('accepts wildcards', () => {
    expect(ruleMismatches({ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }, { verb: 'x', group: 'y', resource: 'z/w' })).toEqual([]);
    expect(ruleMismatches({ verbs: ['get'], nonResourceURLs: ['/metrics/*'] }, { verb: 'get', path: '/metrics/a' })).toEqual([]);
    expect(ruleMismatches({ verbs: ['get'], nonResourceURLs: ['/metrics'] }, { verb: 'get', path: '/metrics/a' })).toEqual([
      'nonResourceURLs',
    ]);
  });
});
