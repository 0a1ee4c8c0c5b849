import type { Clock } from '@oarlock/kernel/clock';
import type { CniResult } from '@oarlock/network-cni/cni-protocol';
import { runProgram } from '@oarlock/network-cni/run-program';

const timeoutMs = 10_000;
interface CniInterface {
  readonly name?: unknown;
  readonly mac?: unknown;
  readonly sandbox?: unknown;
}

/**
 * Removes the node's ends of an attachment's pairs. For a namespace that has lost its name: the bridge plugin does nothing then,
 * and the kernel removes them only when the last process in it ends, with the address already given to another pod.
 */
export async function removeHostInterfaces(clock: Clock, result: CniResult): Promise<void> {
  const interfaces = Array.isArray(result['interfaces']) ? (result['interfaces'] as readonly (CniInterface | null)[]) : [];
  for (const one of interfaces) {
    if (typeof one?.name !== 'string' || !/^veth[0-9a-f]+$/.test(one.name) || (one.sandbox !== undefined && one.sandbox !== '')) continue;
    const shown = await runProgram(clock, 'ip', ['-j', 'link', 'show', 'dev', one.name], { timeoutMs });
    if (shown.exitCode !== 0) continue; // gone
    const [link] = JSON.parse(shown.stdout) as { readonly address?: string }[];
    if (link?.address === one.mac) await runProgram(clock, 'ip', ['link', 'del', 'dev', one.name], { timeoutMs }); // gone meanwhile: as well
  }
}
