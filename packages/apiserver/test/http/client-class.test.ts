import { anonymous } from '@oarlock/spi/authn';
import { expect, it } from 'vitest';
import { clientClassOf, isHigherClass } from '../../src/http/client-class.ts';

it.each([
  [anonymous, 'unauthenticated'],
  [{ name: 'jane', groups: ['system:authenticated'] }, 'authenticated'],
  [{ name: 'system:node:a', groups: ['system:nodes', 'system:authenticated'] }, 'system'],
  [{ name: 'admin', groups: ['system:masters'] }, 'system'],
  [{ name: 'system:kube-scheduler', groups: ['system:authenticated'] }, 'system'],
  [{ name: 'system:serviceaccount:a:b', groups: ['system:serviceaccounts'] }, 'authenticated'],
] as const)('%o is %s', (identity, clientClass) => {
  expect(clientClassOf(identity)).toBe(clientClass);
});

it('a class is higher than those that are closed before it', () => {
  expect(isHigherClass('system', 'authenticated')).toBe(true);
  expect(isHigherClass('authenticated', 'unauthenticated')).toBe(true);
  expect(isHigherClass('authenticated', 'authenticated')).toBe(false);
  expect(isHigherClass('unauthenticated', 'system')).toBe(false);
});
