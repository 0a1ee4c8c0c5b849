import { describe, expect, it } from 'vitest';
import { proxyFor } from '@oarlock/oci/registry/proxy';

const proxy = { httpProxy: 'http://proxy:3128', httpsProxy: 'proxy:3129' };
const via = (url: string, noProxy?: string) => proxyFor(new URL(url), { ...proxy, noProxy })?.host;

describe('proxyFor', () => {
  it('takes the proxy of the scheme, and none for the loopback interface', () => {
    expect(via('https://registry.example.com/v2')).toBe('proxy:3129');
    expect(via('http://registry.example.com/v2')).toBe('proxy:3128');
    for (const url of ['http://localhost:5000', 'http://127.0.0.1', 'http://[::1]:5000']) expect(via(url)).toBeUndefined();
    expect(proxyFor(new URL('https://x'), {})).toBeUndefined();
  });

  it('rejects a setting that is not a URL, without a quote of its password', () => {
    expect(() => proxyFor(new URL('https://x'), { httpsProxy: 'http://user:secret@[x' })).toThrow(
      /^the proxy for https:\/\/ is not a URL$/,
    );
  });

  it.each<[string, string, boolean]>([
    ['*', 'https://x.example.com', true],
    ['example.com', 'https://example.com', true],
    ['example.com', 'https://sub.example.com', true],
    ['example.com', 'https://notexample.com', false],
    ['.example.com', 'https://example.com', false],
    ['*.example.com', 'https://sub.example.com', true],
    ['example.com:8443', 'https://example.com', false],
    ['example.com:8443', 'https://example.com:8443', true],
    ['10.0.0.0/8', 'http://10.1.2.3:5000', true],
    ['10.0.0.0/8', 'http://11.1.2.3:5000', false],
    ['10.0.0.0/8', 'http://ten.example.com', false],
    [' other.org , 192.0.2.1 ', 'http://192.0.2.1', true],
    ['2001:db8::/32', 'http://[2001:db8::1]:5000', true],
  ])('NO_PROXY=%s for %s: %s', (noProxy, url, bypasses) => {
    expect(via(url, noProxy) === undefined).toBe(bypasses);
  });
});
