import { parseAccessTarget } from '@oarlock/api/rbac/access-target';
import { expect, it } from 'vitest';

it.each([
  ['pods', { group: '', resource: 'pods', subresource: '' }],
  ['pods/log', { group: '', resource: 'pods', subresource: 'log' }],
  ['ingresses.networking.k8s.io/status', { group: 'networking.k8s.io', resource: 'ingresses', subresource: 'status' }],
  ['/metrics/cadvisor', { path: '/metrics/cadvisor' }],
])('%s is %j', (text, expected) => {
  expect(parseAccessTarget(text)).toEqual(expected);
});
