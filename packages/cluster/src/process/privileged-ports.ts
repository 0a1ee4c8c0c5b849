import { readFileSync } from 'node:fs';

const sysctl = '/proc/sys/net/ipv4/ip_unprivileged_port_start';
const isRoot = () => process.geteuid?.() === 0;

/** Returns the first port that this process may listen on: 0 for root, else that of the sysctl `net.ipv4.ip_unprivileged_port_start`. */
export function firstUsablePort(file = sysctl, root = isRoot()): number {
  if (root) return 0;
  try {
    return Number(readFileSync(file, 'utf8'));
  } catch {
    return 1024; // a system without this sysctl
  }
}
