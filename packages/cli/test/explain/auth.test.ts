import { describe, expect, it } from 'vitest';
import { authorizationQuery, textOf } from '../../src/explain/auth.ts';

const options = { namespace: 'default', group: ['devs'] };

describe('oarlock auth why', () => {
  it('sends resources, subresources and paths with the groups that the user name implies', () => {
    expect(authorizationQuery('ada', { verb: 'update', target: 'deployments.apps/scale', name: 'web' }, options)).toEqual({
      user: 'ada',
      groups: ['devs', 'system:authenticated'],
      verb: 'update',
      group: 'apps',
      resource: 'deployments',
      subresource: 'scale',
      namespace: 'default',
      name: 'web',
    });
    expect(authorizationQuery('system:anonymous', { verb: 'get', target: '/metrics', name: '' }, { ...options, group: [] })).toEqual({
      user: 'system:anonymous',
      groups: ['system:unauthenticated'],
      verb: 'get',
      path: '/metrics',
    });
    expect(authorizationQuery('system:serviceaccount:a:b', { verb: 'get', target: 'pods', name: '' }, options).groups).toContain(
      'system:serviceaccounts:a',
    );
    expect(authorizationQuery('system:node:n', { verb: 'get', target: 'pods', name: '' }, options).groups).toContain('system:nodes');
  });

  it('prints the decision of each plugin', () => {
    expect(
      textOf({
        allowed: true,
        steps: [
          { plugin: 'authz-masters', decision: 'no-opinion' },
          { plugin: 'authz-rbac', decision: 'allow', because: 'RBAC: allowed by x' },
        ],
      }),
    ).toBe('yes\n  authz-masters  no-opinion\n  authz-rbac     allow: RBAC: allowed by x');
  });
});
