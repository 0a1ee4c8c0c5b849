import { expect, it } from 'vitest';
import { signInAddress } from '../../src/app/sign-in-address.ts';

it.each([
  ['a sign-in link', '#/sign-in/a-b_c', '', { link: 'a-b_c' }],
  ['a response of a provider', '', '?code=c%2B1&state=s.1.x&iss=https%3A%2F%2Fa', { code: 'c+1', state: 's.1.x' }],
  ['an error of a provider', '', '?error=access_denied&error_description=Call+us&state=s', { error: 'access_denied' }],
  ['an error that is a text', '', '?error=Call%20us%20now', { error: 'invalid_response' }],
  ['a code without a state', '', '?code=c', undefined],
  ['a position', '#/r/core/v1/pods?code=c&state=s', '', undefined],
])('reads %s', (_, hash, search, address) => {
  expect(signInAddress({ hash, search })).toEqual(address);
});
