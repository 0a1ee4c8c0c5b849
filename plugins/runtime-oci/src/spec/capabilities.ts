import { readFileSync } from 'node:fs';
import type { SpecCapabilities } from './runtime-spec.ts';

/** All capabilities of Linux, in the order of their numbers (linux/capability.h). */
const names = [
  ...['CHOWN', 'DAC_OVERRIDE', 'DAC_READ_SEARCH', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID', 'SETPCAP', 'LINUX_IMMUTABLE'],
  ...['NET_BIND_SERVICE', 'NET_BROADCAST', 'NET_ADMIN', 'NET_RAW', 'IPC_LOCK', 'IPC_OWNER', 'SYS_MODULE', 'SYS_RAWIO', 'SYS_CHROOT'],
  ...['SYS_PTRACE', 'SYS_PACCT', 'SYS_ADMIN', 'SYS_BOOT', 'SYS_NICE', 'SYS_RESOURCE', 'SYS_TIME', 'SYS_TTY_CONFIG', 'MKNOD', 'LEASE'],
  ...['AUDIT_WRITE', 'AUDIT_CONTROL', 'SETFCAP', 'MAC_OVERRIDE', 'MAC_ADMIN', 'SYSLOG', 'WAKE_ALARM', 'BLOCK_SUSPEND', 'AUDIT_READ'],
  ...['PERFMON', 'BPF', 'CHECKPOINT_RESTORE'],
] as const;

/** The capabilities that containerd and CRI-O give to a container without `privileged`. */
const defaults: readonly string[] = [
  ...['CHOWN', 'DAC_OVERRIDE', 'FSETID', 'FOWNER', 'MKNOD', 'NET_RAW', 'SETGID', 'SETUID', 'SETFCAP', 'SETPCAP', 'NET_BIND_SERVICE'],
  ...['SYS_CHROOT', 'KILL', 'AUDIT_WRITE'],
];

/** Returns the capabilities that this process can give: those of its bounding set. */
export function availableCapabilities(): readonly string[] {
  const set = BigInt(`0x${/^CapBnd:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'}`);
  return names.filter((_, number) => (set & (1n << BigInt(number))) !== 0n);
}

/** Returns the names of a container's capabilities without the prefix CAP_. `ALL` in `add` or `drop` means every capability. */
export function containerCapabilities(
  {
    add = [],
    drop = [],
    privileged,
  }: { readonly add?: readonly string[]; readonly drop?: readonly string[]; readonly privileged: boolean },
  available: readonly string[],
): readonly string[] {
  const plain = (name: string) => name.toUpperCase().replace(/^CAP_/, '');
  const added = add.map(plain);
  const dropped = drop.map(plain);
  if (privileged) return available;
  const kept = new Set(dropped.includes('ALL') ? [] : added.includes('ALL') ? available : defaults);
  for (const name of dropped) kept.delete(name);
  for (const name of added) if (name !== 'ALL') kept.add(name);
  return available.filter((name) => kept.has(name));
}

/** Returns the sets of a process. The kernel takes `permitted` and `effective` away from a user other than root. */
export function capabilitySets(capabilities: readonly string[]): SpecCapabilities {
  const prefixed = capabilities.map((name) => `CAP_${name}`);
  return { bounding: prefixed, effective: prefixed, permitted: prefixed };
}
