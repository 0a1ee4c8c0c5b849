import { isIP } from 'node:net';
import { BlockList } from 'node:net';
import { OciError } from '../oci-error.ts';
import { parseUrl } from './parse-url.ts';

/** Proxies for requests to registries, as in the environment variables of the same names; `noProxy` is a comma-separated list. */
export interface ProxySettings {
  readonly httpProxy?: string | undefined;
  readonly httpsProxy?: string | undefined;
  readonly noProxy?: string | undefined;
}

/**
 * Returns the proxy for a URL, or undefined. The rules of NO_PROXY are those of golang.org/x/net/http/httpproxy; loopback addresses use no proxy.
 * @throws OciError `FailedPrecondition` if the setting is not a URL
 */
export function proxyFor(url: URL, { httpProxy, httpsProxy, noProxy = '' }: ProxySettings): URL | undefined {
  const setting = url.protocol === 'https:' ? httpsProxy : httpProxy;
  if (setting === undefined || setting === '') return undefined;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port;
  if (host === 'localhost' || (isIP(host) !== 0 && isLoopback(host))) return undefined;
  const bypasses = noProxy
    .split(',')
    .map((entry) => entry.trim().toLowerCase())
    .some((entry) => entry !== '' && matches(entry, host.toLowerCase(), port));
  if (bypasses) return undefined;
  const proxy = parseUrl(setting.includes('://') ? setting : `http://${setting}`);
  // the setting may hold a password, which the error of the URL parser quotes
  if (proxy === undefined) throw new OciError('FailedPrecondition', `the proxy for ${url.protocol}// is not a URL`);
  return proxy;
}

const family = (address: string) => (isIP(address) === 6 ? 'ipv6' : 'ipv4') as 'ipv4' | 'ipv6';

function isLoopback(address: string): boolean {
  const list = new BlockList();
  list.addSubnet('127.0.0.0', 8, 'ipv4');
  list.addAddress('::1', 'ipv6');
  return list.check(address, family(address));
}

function matches(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true;
  const [, subnet, bits] = /^([^/]+)\/(\d{1,3})$/.exec(entry) ?? [];
  if (subnet !== undefined && isIP(subnet) !== 0) {
    if (isIP(host) === 0 || Number(bits) > (isIP(subnet) === 6 ? 128 : 32)) return false;
    const list = new BlockList();
    list.addSubnet(subnet, Number(bits), family(subnet));
    return list.check(host, family(host));
  }
  const [, name = entry, entryPort] = isIP(entry) === 6 ? [] : (/^(.*):(\d+)$/.exec(entry) ?? []);
  if (entryPort !== undefined && entryPort !== port) return false;
  const suffix = name.replace(/^\*/, '');
  return suffix.startsWith('.') ? host.endsWith(suffix) : host === suffix || host.endsWith(`.${suffix}`);
}
