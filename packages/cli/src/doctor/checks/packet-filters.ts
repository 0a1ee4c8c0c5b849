import { ok, type Check, type Finding } from './check.ts';
import type { Machine } from './machine.ts';

interface PacketFilter {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly debianPackage: string;
  readonly affects: string;
}

/** Lists the rules, as the plugins do before they change any. */
async function tryFilter(machine: Machine, { program, args, debianPackage, affects }: PacketFilter): Promise<Finding> {
  const path = machine.findProgram(program);
  if (path === undefined)
    return { level: 'warn', found: `${program} is not installed`, affects, remedy: `Install the package ${debianPackage}.` };
  if (!machine.root) return asUser(machine, { program: path, args, affects });
  const { code, problem } = await machine.run(path, args);
  if (code === 0) return ok(path);
  return {
    level: 'warn',
    found: `${program} does not work: ${problem}`,
    affects,
    remedy: `Load the kernel modules of ${program} (in a container: give it the capability NET_ADMIN).`,
  };
}

/** An ordinary user changes packet rules only in a network namespace. */
async function asUser(machine: Machine, { program, args, affects }: Pick<PacketFilter, 'program' | 'args' | 'affects'>): Promise<Finding> {
  const found = 'changing packet rules of this machine requires root';
  const unshare = machine.findProgram('unshare');
  const inNamespace = ['--user', '--map-root-user', '--net', '--', program, ...args];
  const result = unshare === undefined ? undefined : await machine.run(unshare, inNamespace);
  if (result?.code === 0) return ok(`${program}, in the network of a node without root (composition rootless)`);
  return { level: 'warn', found, affects, remedy: 'Run Oarlock as root.' };
}

const check = (filter: PacketFilter): Check => ({ name: filter.name, linux: true, run: ({ machine }) => tryFilter(machine, filter) });

export const nftables = check({
  name: 'nftables',
  program: 'nft',
  args: ['list', 'tables'],
  debianPackage: 'nftables',
  affects: 'Compositions with policy-nftables and proxy-nftables (all with containerd or docker) do not run.',
});

export const iptables = check({
  name: 'iptables',
  program: 'iptables',
  args: ['-w', '5', '-t', 'nat', '-S'],
  debianPackage: 'iptables',
  affects: 'proxy-iptables does not run; no ready composition uses it.',
});
