import { forwardedValue, foreignSetCookies } from '../../src/proxy/internal/client-credentials.ts';
import { describe, expect, it } from 'vitest';

const bearer = 'base64url.bearer.authorization.k8s.io.dG9rZW4';
const key = `key.console.oarlock.dev.${'k'.repeat(43)}`;

describe('a credential of the client', () => {
  it.each([
    ['cookie', 'a=b; c=d', 'a=b; c=d'],
    ['cookie', '__Host-oarlock-session=s', undefined],
    ['cookie', 'a=b; __Host-oarlock-session=s; c=d', 'a=b; c=d'],
    ['cookie', '__Host-oarlock-session=s;__Host-oarlock-other=t;a=b', 'a=b'],
    ['cookie', 'a=__Host-oarlock-session', 'a=__Host-oarlock-session'],
    ['authorization', 'Bearer token', undefined],
    ['impersonate-user', 'ada', undefined],
    ['impersonate-extra-scopes', 'all', undefined],
    ['x-oarlock-console', 'k'.repeat(43), undefined],
    ['sec-websocket-protocol', `${bearer}, v5.channel.k8s.io`, 'v5.channel.k8s.io'],
    ['sec-websocket-protocol', `v5.channel.k8s.io,${key},v4.channel.k8s.io`, 'v5.channel.k8s.io,v4.channel.k8s.io'],
    ['sec-websocket-protocol', `${bearer},${key}`, undefined],
    ['sec-websocket-protocol', 'chat, superchat', 'chat, superchat'],
    ['accept', bearer, bearer],
  ])('is not sent to the backend of a proxied request: %s: %s', (name, sent, forwarded) => {
    expect(forwardedValue(name, sent)).toBe(forwarded);
  });
  it('is not set by the backend', () => {
    expect(foreignSetCookies(['a=b', '__Host-oarlock-session=attacker; Path=/', ' __Host-oarlock-x=y'])).toEqual(['a=b']);
  });
});
