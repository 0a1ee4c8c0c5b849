import type { Pod } from '@oarlock/api/types/core-v1';
import { isHostNetwork } from './pods.ts';

/** The safe sysctls of Kubernetes, which affect only the pod that sets them. */
const safe: readonly string[] = [
  'kernel.shm_rmid_forced',
  'net.ipv4.ip_local_port_range',
  'net.ipv4.ip_local_reserved_ports',
  'net.ipv4.ip_unprivileged_port_start',
  'net.ipv4.ping_group_range',
  'net.ipv4.tcp_fin_timeout',
  'net.ipv4.tcp_keepalive_intvl',
  'net.ipv4.tcp_keepalive_probes',
  'net.ipv4.tcp_keepalive_time',
  'net.ipv4.tcp_rmem',
  'net.ipv4.tcp_syncookies',
  'net.ipv4.tcp_wmem',
];

/** The namespace (ipc or net) of each prefix of namespaced sysctls. */
const namespaced: Readonly<Record<string, 'ipc' | 'net'>> = {
  'kernel.sem': 'ipc',
  'kernel.shm': 'ipc',
  'kernel.msg': 'ipc',
  'fs.mqueue.': 'ipc',
  'net.': 'net',
};

/**
 * Returns the sysctl's name with dots as separators. The first separator decides: `net/ipv4/conf/eth0.1/forwarding` and
 * `net.ipv4.conf.eth0/1.forwarding` are the same sysctl.
 */
export function dottedSysctl(name: string): string {
  const first = /[./]/.exec(name)?.[0];
  return first === '/' ? name.replace(/[./]/g, (one) => (one === '/' ? '.' : '/')) : name;
}

const matches = (pattern: string, name: string) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern);
const namespaceOf = (name: string) => Object.entries(namespaced).find(([prefix]) => name.startsWith(prefix))?.[1];

/** Returns true if the pattern, a name or a prefix that ends with `*`, matches only namespaced sysctls. */
export const isNamespacedSysctl = (pattern: string): boolean => namespaceOf(dottedSysctl(pattern).replace(/\*$/, '')) !== undefined;

/**
 * Returns why a pod may not set its sysctls; undefined if it may. `unsafe` lists unsafe sysctls that are allowed: names, or prefixes that end
 * with `*`.
 */
export function forbiddenSysctl(pod: Pod, unsafe: readonly string[]): string | undefined {
  for (const { name } of pod.spec?.securityContext?.sysctls ?? []) {
    const key = dottedSysctl(name);
    const namespace = namespaceOf(key);
    if (!safe.includes(key) && !unsafe.some((pattern) => matches(dottedSysctl(pattern), key)))
      return `forbidden sysctl: "${name}" not allowlisted`;
    if (namespace === 'net' && isHostNetwork(pod)) return `forbidden sysctl: "${name}" not allowed with host net enabled`;
    if (namespace === 'ipc' && pod.spec?.hostIPC) return `forbidden sysctl: "${name}" not allowed with host ipc enabled`;
  }
  return undefined;
}
