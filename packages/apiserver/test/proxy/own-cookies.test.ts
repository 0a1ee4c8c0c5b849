import { foreignCookies, foreignSetCookies } from '../../src/proxy/internal/own-cookies.ts';
import { describe, expect, it } from 'vitest';

describe('a cookie of the API server', () => {
  it.each([
    ['a=b; c=d', 'a=b; c=d'],
    ['__Host-oarlock-session=s', undefined],
    ['a=b; __Host-oarlock-session=s; c=d', 'a=b; c=d'],
    ['__Host-oarlock-session=s;__Host-oarlock-other=t;a=b', 'a=b'],
    ['a=__Host-oarlock-session', 'a=__Host-oarlock-session'],
  ])('is not sent to the backend of a proxied request: %s', (sent, forwarded) => {
    expect(foreignCookies(sent)).toBe(forwarded);
  });
  it('is not set by the backend', () => {
    expect(foreignSetCookies(['a=b', '__Host-oarlock-session=attacker; Path=/', ' __Host-oarlock-x=y'])).toEqual(['a=b']);
  });
});
