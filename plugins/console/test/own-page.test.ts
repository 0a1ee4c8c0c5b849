import { describe, expect, it } from 'vitest';
import { isFromOwnPage, sessionSecretOf } from '../src/own-page.ts';

const own = { host: '127.0.0.1:6443', 'x-oarlock-console': '1' };
const origin = 'https://127.0.0.1:6443';
const secret = 'a'.repeat(43);

describe('a request of the own page', () => {
  it.each([
    ['a fetch that reads', own],
    ['a fetch that writes', { ...own, origin, 'sec-fetch-site': 'same-origin' }],
    ['HTTP/2', { ':authority': '127.0.0.1:6443', 'x-oarlock-console': '1', origin }],
    ['a WebSocket', { host: '127.0.0.1:6443', upgrade: 'websocket', origin }],
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
    ['a WebSocket of another port', { host: own.host, upgrade: 'websocket', origin: 'https://127.0.0.1:8080' }],
    ['a WebSocket without an origin', { host: own.host, upgrade: 'websocket' }],
    ['a WebSocket whose origin begins with the host', { host: own.host, upgrade: 'WebSocket', origin: `${origin}.evil.example` }],
    ['no host', { 'x-oarlock-console': '1' }],
  ])('is not %s', (_, headers) => {
    expect(isFromOwnPage(headers)).toBe(false);
  });
});

describe('the session cookie', () => {
  it('is found among others', () => {
    expect(sessionSecretOf({ cookie: `a=b; __Host-oarlock-session-443=${secret}; c=d` })).toBe(secret);
  });
  it('is that of the port', () => {
    const cookie = `__Host-oarlock-session-6443=${secret}; __Host-oarlock-session-7443=${'b'.repeat(43)}`;
    expect(sessionSecretOf({ host: '127.0.0.1:6443', cookie })).toBe(secret);
    expect(sessionSecretOf({ ':authority': '[::1]:7443', cookie })).toBe('b'.repeat(43));
    expect(sessionSecretOf({ host: 'cluster.example', cookie })).toBeUndefined();
  });
  it.each([
    ['absent', undefined],
    ['sent twice', `__Host-oarlock-session-443=${secret}; __Host-oarlock-session-443=${'b'.repeat(43)}`],
    ['too short', '__Host-oarlock-session-443=abc'],
    ['no secret of the console', `__Host-oarlock-session-443=${'%'.repeat(43)}`],
    ['of another name', `x__Host-oarlock-session-443=${secret}; oarlock-session=${secret}`],
  ])('does not count when it is %s', (_, cookie) => {
    expect(sessionSecretOf(cookie === undefined ? {} : { cookie })).toBeUndefined();
  });
});
