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

/** The cluster's DNS domain and its DNS servers. */
interface ClusterDns {
  readonly domain: string;
  readonly servers: readonly string[];
}
interface DnsWarning {
  readonly reason: 'DNSConfigForming' | 'MissingClusterDNS';
  readonly message: string;
}
export interface PodDnsConfig {
  readonly dns: NonNullable<PodSandboxConfig['dns']>;
  /** Events about omitted entries and the lack of a cluster DNS. */
  readonly warnings: readonly DnsWarning[];
}

/** Returns the resolver configuration of a pod from its dnsPolicy and dnsConfig. */
export function podDnsConfig(pod: Pod, cluster: ClusterDns, host: ResolverConfig): PodDnsConfig {
  const { dnsConfig } = pod.spec ?? {};
  const warnings: DnsWarning[] = [];
  const base = resolverOfPolicy(pod, cluster, host);
  if (base === undefined) warnings.push({ reason: 'MissingClusterDNS', message: missingClusterDns(pod) });
  const { servers: ofPolicy, searches: searchesOfPolicy, options: optionsOfPolicy } = base ?? host;
  const servers = unique([...ofPolicy, ...(dnsConfig?.nameservers ?? [])]);
  const searches = unique([...searchesOfPolicy, ...(dnsConfig?.searches ?? [])]);
  const options = new Map(optionsOfPolicy.map((option) => [option.split(':')[0] ?? option, option]));
  for (const { name = '', value } of dnsConfig?.options ?? [])
    options.set(name, value === undefined || value === '' ? name : `${name}:${value}`);
  let kept = searches.slice(0, maxSearches);
  while (kept.join(' ').length > maxSearchLength) kept = kept.slice(0, -1);
  if (servers.length > maxServers)
    warnings.push({
      reason: 'DNSConfigForming',
      message: `Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: ${servers.slice(0, maxServers).join(' ')}`,
    });
  if (kept.length < searches.length)
    warnings.push({
      reason: 'DNSConfigForming',
      message: `Search Line limits were exceeded, some search paths have been omitted, the applied search line is: ${kept.join(' ')}`,
    });
  return { dns: { servers: servers.slice(0, maxServers), searches: kept, options: [...options.values()] }, warnings };
}

/** Returns the resolver configuration that the dnsPolicy of a pod selects, or undefined if it selects the DNS of a cluster that has none. */
function resolverOfPolicy(pod: Pod, { domain, servers }: ClusterDns, host: ResolverConfig): ResolverConfig | undefined {
  const { dnsPolicy = 'ClusterFirst' } = pod.spec ?? {};
  if (dnsPolicy === 'None') return { servers: [], searches: [], options: [] };
  if (dnsPolicy === 'Default' || (dnsPolicy === 'ClusterFirst' && isHostNetwork(pod))) return host;
  if (servers.length === 0) return undefined;
  return {
    servers,
    searches: unique([`${pod.metadata?.namespace}.svc.${domain}`, `svc.${domain}`, domain, ...host.searches]),
    options: ['ndots:5'],
  };
}

const missingClusterDns = ({ metadata }: Pod): string =>
  `pod: "${metadata?.name}_${metadata?.namespace}(${metadata?.uid})". kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.`;
