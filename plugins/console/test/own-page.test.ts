import { describe, expect, it } from 'vitest';
import { isFromOwnPage, sessionSecretOf } from '../src/own-page.ts';

const key = 'k'.repeat(43);
const own = { host: '127.0.0.1:6443', 'x-oarlock-console': key };
const origin = 'https://127.0.0.1:6443';
const cookieValue = 'a'.repeat(43);
const secret = `${cookieValue}.${key}`;
const protocols = `v5.channel.k8s.io, key.console.oarlock.dev.${key}`;

describe('a request of the own page', () => {
  it.each([
    ['a fetch that reads', own],
    ['a fetch that writes', { ...own, origin, 'sec-fetch-site': 'same-origin' }],
    ['HTTP/2', { ':authority': '127.0.0.1:6443', 'x-oarlock-console': key, origin }],
    ['a WebSocket', { host: '127.0.0.1:6443', upgrade: 'websocket', origin, 'sec-websocket-protocol': protocols }],
  ])('is recognized: %s', (_, headers) => {
    expect(isFromOwnPage(headers)).toBe(true);
  });

  it.each([
    ['a navigation', { host: own.host, 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate' }],
    ['a form or an image', { host: own.host, origin }],
    ['another value of the header', { ...own, 'x-oarlock-console': 'true' }],
    ['another port of the host', { ...own, origin: 'https://127.0.0.1:8080', 'sec-fetch-site': 'same-site' }],
    ['another port without Fetch Metadata', { ...own, origin: 'https://127.0.0.1:8080' }],
    ['the same host without TLS', { ...own, origin: 'http://127.0.0.1:6443' }],
    ['another site', { ...own, origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }],
    ['a sandboxed frame', { ...own, origin: 'null' }],
    ['a link from another site', { ...own, 'sec-fetch-site': 'cross-site' }],
    [
      'a WebSocket of another port',
      { host: own.host, upgrade: 'websocket', origin: 'https://127.0.0.1:8080', 'sec-websocket-protocol': protocols },
    ],
    ['a WebSocket without an origin', { host: own.host, upgrade: 'websocket', 'sec-websocket-protocol': protocols }],
    ['a WebSocket without the key', { host: own.host, upgrade: 'websocket', origin, 'sec-websocket-protocol': 'v5.channel.k8s.io' }],
    ['a WebSocket with two keys', { host: own.host, upgrade: 'websocket', origin, 'sec-websocket-protocol': `${protocols}, ${protocols}` }],
    [
      'a WebSocket whose origin begins with the host',
      { host: own.host, upgrade: 'WebSocket', origin: `${origin}.evil.example`, 'sec-websocket-protocol': protocols },
    ],
    ['no host', { 'x-oarlock-console': key }],
    ['two lines of the header', { ...own, 'x-oarlock-console': `${key}, ${key}` }],
  ])('is not %s', (_, headers) => {
    expect(isFromOwnPage(headers)).toBe(false);
  });
});

describe('the session cookie', () => {
  it('is found among others', () => {
    expect(sessionSecretOf({ 'x-oarlock-console': key, cookie: `a=b; __Host-oarlock-session-443=${cookieValue}; c=d` })).toBe(secret);
  });
  it('is that of the port', () => {
    const cookie = `__Host-oarlock-session-6443=${cookieValue}; __Host-oarlock-session-7443=${'b'.repeat(43)}`;
    expect(sessionSecretOf({ ...own, cookie })).toBe(secret);
    expect(sessionSecretOf({ 'x-oarlock-console': key, ':authority': '[::1]:7443', cookie })).toBe(`${'b'.repeat(43)}.${key}`);
    expect(sessionSecretOf({ ...own, host: 'cluster.example', cookie })).toBeUndefined();
    expect(sessionSecretOf({ host: own.host, cookie })).toBeUndefined();
  });
  it.each([
    ['absent', undefined],
    ['sent twice', `__Host-oarlock-session-443=${cookieValue}; __Host-oarlock-session-443=${'b'.repeat(43)}`],
    ['too short', '__Host-oarlock-session-443=abc'],
    ['no secret of the console', `__Host-oarlock-session-443=${'%'.repeat(43)}`],
    ['of another name', `x__Host-oarlock-session-443=${cookieValue}; oarlock-session=${cookieValue}`],
  ])('does not count when it is %s', (_, cookie) => {
    expect(sessionSecretOf({ 'x-oarlock-console': key, ...(cookie !== undefined && { cookie }) })).toBeUndefined();
  });
});
