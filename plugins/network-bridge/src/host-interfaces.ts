import type { Clock } from '@oarlock/primitives/clock';
import type { CniResult } from '@oarlock/network-cni/cni/protocol';
import { runProgram } from '@oarlock/primitives/os/run-program';

const timeoutMs = 10_000;
interface CniInterface {
  readonly name?: unknown;
  readonly mac?: unknown;
  readonly sandbox?: unknown;
}

/** A host end of an attachment's veth pairs. */
interface HostInterface {
  readonly name: string;
  readonly mac: unknown;
}

const interfacesOf = (result: CniResult): readonly (CniInterface | null)[] =>
  Array.isArray(result['interfaces']) ? (result['interfaces'] as readonly (CniInterface | null)[]) : [];

/** Returns the host ends of an attachment's veth pairs. */
export function hostInterfaces(result: CniResult): readonly HostInterface[] {
  return interfacesOf(result).flatMap((one) => {
    const { name, mac, sandbox } = one ?? {};
    return typeof name === 'string' && /^veth[0-9a-f]+$/.test(name) && (sandbox === undefined || sandbox === '') ? [{ name, mac }] : [];
  });
}

/** Returns the link addresses of an attachment's interfaces in the pod. */
export function podLinkAddresses(result: CniResult): readonly string[] {
  return interfacesOf(result).flatMap((one) => {
    const { mac, sandbox } = one ?? {};
    return typeof mac === 'string' && /^([0-9a-f]{2}:){5}[0-9a-f]{2}$/i.test(mac) && typeof sandbox === 'string' && sandbox !== ''
      ? [mac]
      : [];
  });
}

/**
 * Removes the host ends of an attachment's veth pairs. Used if the network namespace has no path: the bridge plugin then does nothing, and the kernel
 * removes the pairs only when the last process in the namespace ends, when another pod may already have the address.
 */
export async function removeHostInterfaces(clock: Clock, result: CniResult): Promise<void> {
  for (const { name, mac } of hostInterfaces(result)) {
    const listed = await runProgram(clock, 'ip', ['-j', 'link', 'show', 'dev', name], { timeoutMs });
    if (listed.exitCode !== 0) continue; // gone
    const [link] = JSON.parse(listed.stdout) as { readonly address?: string }[];
    if (link?.address === mac) await runProgram(clock, 'ip', ['link', 'del', 'dev', name], { timeoutMs }); // ignores a link that no longer exists
  }
}
