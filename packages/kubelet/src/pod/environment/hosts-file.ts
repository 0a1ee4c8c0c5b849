import type { HostAlias, Pod } from '@oarlock/api/types/core-v1';
import { isHostNetwork } from '../../pod-util/pods.ts';

/** Truncates a host name to 63 bytes, the maximum of the kernel. */
function shorten(name: string): string {
  return name.slice(0, 63).replace(/[-.]+$/, '');
}

export interface PodHostname {
  readonly hostname: string;
  /** The pod's domain; empty unless the pod has a subdomain. */
  readonly domain: string;
}

export function podHostname(pod: Pod, node: { readonly hostname: string; readonly domain: string }): PodHostname {
  const { spec, metadata } = pod;
  if (spec?.hostnameOverride) return { hostname: spec.hostnameOverride, domain: '' };
  if (isHostNetwork(pod)) return { hostname: shorten(node.hostname), domain: '' };
  const hostname = spec?.hostname ? spec.hostname : shorten(metadata?.name ?? '');
  const domain = spec?.subdomain ? `${spec.subdomain}.${metadata?.namespace}.svc.${node.domain}` : '';
  return { hostname: spec?.setHostnameAsFQDN && domain !== '' ? `${hostname}.${domain}` : hostname, domain };
}

function aliasLines(aliases: readonly HostAlias[] | undefined): string {
  if (aliases === undefined || aliases.length === 0) return '';
  return `\n# Entries added by HostAliases.\n${aliases.map(({ ip, hostnames }) => `${ip}\t${(hostnames ?? []).join('\t')}\n`).join('')}`;
}

/** Returns the content of /etc/hosts for a pod that is not on the host network. */
export function hostsFile(pod: Pod, podIPs: readonly string[], { hostname, domain }: PodHostname): string {
  const local = [
    '127.0.0.1\tlocalhost',
    '::1\tlocalhost ip6-localhost ip6-loopback',
    'fe00::0\tip6-localnet',
    'fe00::0\tip6-mcastprefix',
    'fe00::1\tip6-allnodes',
    'fe00::2\tip6-allrouters',
  ];
  const short = hostname.split('.')[0] ?? hostname;
  const own = podIPs.map((ip) => (domain === '' ? `${ip}\t${hostname}` : `${ip}\t${short}.${domain}\t${short}`));
  return `# Kubernetes-managed hosts file.\n${[...local, ...own].join('\n')}\n${aliasLines(pod.spec?.hostAliases)}`;
}

/** Returns the node's /etc/hosts with the pod's hostAliases appended, for a pod on the host network. */
export function nodeHostsFile(pod: Pod, nodeFile: string): string {
  return `# Kubernetes-managed hosts file (host network).\n${nodeFile}${aliasLines(pod.spec?.hostAliases)}`;
}
