import type { Container, Pod } from './generated/types/core-v1.ts';

const anyAddress = '0.0.0.0';

/** `protocol/ip/port` of the ports of its node that a pod takes: those of its containers, and of init containers that stay. */
export function hostPorts({ spec }: Pod): readonly string[] {
  let found: string[] | undefined;
  const add = ({ ports }: Container) => {
    for (const { hostPort, hostIP, protocol = 'TCP' } of ports ?? [])
      if (hostPort) (found ??= []).push(`${protocol}/${hostIP || anyAddress}/${hostPort}`);
  };
  for (const container of spec?.containers ?? []) add(container);
  for (const container of spec?.initContainers ?? []) if (container.restartPolicy === 'Always') add(container);
  return found ?? [];
}

/** Whether a wanted `protocol/ip/port` collides with a used one: an address of 0.0.0.0 collides with every address. */
export function collides(wanted: string, used: Pick<ReadonlySet<string>, 'has' | 'keys'>): boolean {
  if (used.has(wanted)) return true;
  const [protocol, ip, port] = wanted.split('/');
  if (ip !== anyAddress) return used.has(`${protocol}/${anyAddress}/${port}`);
  for (const each of used.keys()) if (each.startsWith(`${protocol}/`) && each.endsWith(`/${port}`)) return true;
  return false;
}
