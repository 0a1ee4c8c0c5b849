import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import type { CertificateRequest, ClusterFacts } from '@oarlock/spi/cluster';

/** Returns a certificate request with the host names and IP addresses of the server. */
export function servingCertificateRequest(facts: ClusterFacts, extra: readonly (string | undefined)[]): CertificateRequest {
  const names = new Set([
    'kubernetes',
    'kubernetes.default',
    'kubernetes.default.svc',
    `kubernetes.default.svc.${facts.domain}`,
    'localhost',
    hostname().toLowerCase(),
  ]);
  const addresses = new Set(['127.0.0.1', '::1', facts.kubernetesServiceIP]);
  for (const list of Object.values(networkInterfaces()))
    for (const { address, scopeid } of list ?? []) if (!scopeid) addresses.add(address);
  for (const name of [...extra, hostOf(facts.serverUrl)]) {
    if (name === undefined || name === '' || name === '0.0.0.0' || name === '::') continue;
    (isIP(name) === 0 ? names : addresses).add(name);
  }
  return { commonName: 'kube-apiserver', dnsNames: [...names].sort(), ipAddresses: [...addresses].sort(), usages: ['server'] };
}

const hostOf = (url: string): string => new URL(url).hostname.replace(/^\[|\]$/g, '');
