import { FakeClock } from '@oarlock/testing/fake-clock';
import { expect, it } from 'vitest';
import { SignInLinks } from '../src/sign-in-links.ts';

const user = (name: string) => ({ identity: { name, groups: [] }, notAfter: Infinity });

it('is valid once, and until it ends', async () => {
  const clock = new FakeClock();
  const links = new SignInLinks(60_000, clock);
  const { secret } = links.create(user('ada'));
  expect(links.redeem(secret)?.identity.name).toBe('ada');
  expect(links.redeem(secret)).toBeUndefined();
  const late = links.create(user('ada'));
  await clock.advance(60_000);
  expect(links.redeem(late.secret)).toBeUndefined();
});

it('is not ended by the links of another user', () => {
  const links = new SignInLinks(60_000, new FakeClock());
  const { secret } = links.create(user('ada'));
  const flood = Array.from({ length: 500 }, () => links.create(user('eve')).secret);
  expect(flood.filter((each) => links.redeem(each) !== undefined)).toEqual(flood.slice(-10));
  expect(links.redeem(secret)?.identity.name).toBe('ada');
});
