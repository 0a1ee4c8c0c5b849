import { isIPv6 } from 'node:net';
import type { Clock } from '@oarlock/primitives/clock';
import { runProgram } from '@oarlock/primitives/os/run-program';

const timeoutMs = 10_000;

/**
 * Deletes the conntrack entries from and to addresses that pods have had before. The kernel keeps an entry after the end of a pod, and the rules accept
 * packets of established flows: a client of the former pod would reach the next pod with its address past all policies.
 * @returns false if the conntrack tool is not installed
 * @throws Error if the tool does not end
 */
export async function deleteFormerFlows(clock: Clock, addresses: readonly string[], enter: readonly string[] = []): Promise<boolean> {
  // the reply source is also the pod of a flow to a Service, whose destination is the address of the Service
  for (const address of addresses)
    for (const field of ['--orig-src', '--reply-src']) {
      const [file = '', ...args] = [...enter, 'conntrack', '-D', '-f', isIPv6(address) ? 'ipv6' : 'ipv4', field, address];
      const missing = (error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return undefined;
        throw error;
      };
      const result = await runProgram(clock, file, args, { timeoutMs }).catch(missing);
      if (result === undefined) return false;
      // exit code 1 without an error: no entry matched
      if (result.killed !== undefined) throw new Error(`conntrack: ${result.killed}`);
    }
  return true;
}
