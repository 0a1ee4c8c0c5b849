import { describe, expect, it } from 'vitest';
import { accessLink, deniedRequest, ruleRequestOf } from '../../../../src/views/why/access/access-request.ts';

describe('deniedRequest', () => {
  it.each([
    [
      'secrets is forbidden: User "ada" cannot list resource "secrets" in API group "" in the namespace "team"',
      { verb: 'list', target: 'secrets', namespace: 'team', name: '' },
    ],
    [
      'deployments.apps "web" is forbidden: User "ada" cannot patch resource "deployments/scale" in API group "apps" in the namespace "team"',
      { verb: 'patch', target: 'deployments.apps/scale', namespace: 'team', name: 'web' },
    ],
    [
      'nodes is forbidden: User "ada" cannot list resource "nodes" in API group "" at the cluster scope',
      { verb: 'list', target: 'nodes', namespace: '', name: '' },
    ],
    ['forbidden: User "ada" cannot get path "/metrics"', { verb: 'get', target: '/metrics', namespace: '', name: '' }],
    ['the server timed out', undefined],
  ])('%s', (message, expected) => {
    expect(deniedRequest(message)).toEqual(expected);
  });
});

describe('accessLink', () => {
  it('is a deep link without empty parameters', () => {
    expect(accessLink({ verb: 'get', target: 'pods/log', namespace: 'a', name: '' })).toBe('#/why/access?verb=get&target=pods%2Flog&ns=a');
  });
});

describe('ruleRequestOf', () => {
  it('joins resource and subresource', () => {
    const request = { verb: 'patch', target: 'deployments.apps/scale', namespace: 'a', name: 'b', user: '', groups: '' };
    expect(ruleRequestOf(request)).toEqual({ verb: 'patch', group: 'apps', resource: 'deployments/scale', name: 'b' });
    expect(ruleRequestOf({ ...request, target: '/metrics' })).toEqual({ verb: 'patch', path: '/metrics' });
  });
});
