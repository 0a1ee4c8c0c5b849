import { impliedGroups } from '@oarlock/api/rbac/implied-groups';
import { expect, it } from 'vitest';

it.each([
  ['ada', ['system:authenticated']],
  ['system:anonymous', ['system:unauthenticated']],
  ['system:node:n', ['system:nodes', 'system:authenticated']],
  ['system:serviceaccount:a:b', ['system:serviceaccounts', 'system:serviceaccounts:a', 'system:authenticated']],
])('%s belongs to %j', (user, expected) => {
  expect(impliedGroups(user)).toEqual(expected);
});
