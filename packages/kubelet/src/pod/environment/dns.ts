import type { Pod } from '@oarlock/api/types/core-v1';
import type { PodSandboxConfig } from '@oarlock/spi/runtime';
import { isHostNetwork } from '../../pod-util/pods.ts';

export interface ResolverConfig {
  readonly servers: readonly string[];
  readonly searches: readonly string[];
  readonly options: readonly string[];
}

const maxServers = 3;
const maxSearches = 32;
const maxSearchLength = 2048;
const unique = (items: readonly string[]) => [...new Set(items)];

/** Parses a resolv.conf. As in the C library's resolver, the last `search` line takes effect. */
export function parseResolvConf(text: string): ResolverConfig {
  const servers: string[] = [];
  let searches: string[] = [];
  let options: string[] = [];
  for (const line of text.split('\n')) {
    const [word, ...rest] = line.trim().split(/\s+/);
    if (word === 'nameserver' && rest[0] !== undefined) servers.push(rest[0]);
    else if (word === 'search') searches = rest.map((name) => (name.length > 1 ? name.replace(/\.$/, '') : name));
    else if (word === 'options') options = rest;
  }
  return { servers, searches, options };
}

/** Returns the resolver configuration of a pod from its dnsPolicy and dnsConfig. `omitted` contains a message about each omitted entry. */
export function podDnsConfig(
  pod: Pod,
  cluster: { readonly domain: string; readonly dnsServiceIP: string },
  host: ResolverConfig,
): { readonly dns: NonNullable<PodSandboxConfig['dns']>; readonly omitted: readonly string[] } {
  const { dnsPolicy = 'ClusterFirst', dnsConfig } = pod.spec ?? {};
  const policy =
    dnsPolicy === 'ClusterFirst' && isHostNetwork(pod) ? 'Default' : dnsPolicy === 'ClusterFirstWithHostNet' ? 'ClusterFirst' : dnsPolicy;
  let base: ResolverConfig = host;
  if (policy === 'None') base = { servers: [], searches: [], options: [] };
  else if (policy === 'ClusterFirst') {
    const { domain } = cluster;
    base = {
      servers: [cluster.dnsServiceIP],
      searches: unique([`${pod.metadata?.namespace}.svc.${domain}`, `svc.${domain}`, domain, ...host.searches]),
      options: ['ndots:5'],
    };
  }
  const servers = unique([...base.servers, ...(dnsConfig?.nameservers ?? [])]);
  const searches = unique([...base.searches, ...(dnsConfig?.searches ?? [])]);
  const options = new Map(base.options.map((option) => [option.split(':')[0] ?? option, option]));
  for (const { name = '', value } of dnsConfig?.options ?? [])
    options.set(name, value === undefined || value === '' ? name : `${name}:${value}`);
  let kept = searches.slice(0, maxSearches);
  while (kept.join(' ').length > maxSearchLength) kept = kept.slice(0, -1);
  const omitted = [
    ...(servers.length > maxServers
      ? [
          `Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: ${servers.slice(0, maxServers).join(' ')}`,
        ]
      : []),
    ...(kept.length < searches.length
      ? [`Search Line limits were exceeded, some search paths have been omitted, the applied search line is: ${kept.join(' ')}`]
      : []),
  ];
  return { dns: { servers: servers.slice(0, maxServers), searches: kept, options: [...options.values()] }, omitted };
}
