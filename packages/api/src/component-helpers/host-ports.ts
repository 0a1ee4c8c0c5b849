import type { Container, Pod } from '../generated/types/core-v1.ts';
import { isRestartableInitContainer } from './restartable-init-container.ts';

const anyAddress = '0.0.0.0';

/** Returns the host ports of a pod's containers and sidecars as `protocol/ip/port`. */
export function hostPorts({ spec }: Pod): readonly string[] {
  let found: string[] | undefined;
  const add = ({ ports }: Container) => {
    for (const { hostPort, hostIP, protocol = 'TCP' } of ports ?? [])
      if (hostPort) (found ??= []).push(`${protocol}/${hostIP || anyAddress}/${hostPort}`);
  };
  for (const container of spec?.containers ?? []) add(container);
  for (const container of spec?.initContainers ?? []) if (isRestartableInitContainer(container)) add(container);
  return found ?? [];
}

/** Returns true if the host port `wanted` (`protocol/ip/port`) conflicts with a port in `used`. The address 0.0.0.0 conflicts with every address. */
export function hostPortConflicts(wanted: string, used: Pick<ReadonlySet<string>, 'has' | 'keys'>): boolean {
  if (used.has(wanted)) return true;
  const [protocol, ip, port] = wanted.split('/');
  if (ip !== anyAddress) return used.has(`${protocol}/${anyAddress}/${port}`);
  for (const each of used.keys()) if (each.startsWith(`${protocol}/`) && each.endsWith(`/${port}`)) return true;
  return false;
}
