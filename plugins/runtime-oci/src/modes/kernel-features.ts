import { existsSync, readFileSync } from 'node:fs';
import { mappedIds } from '@oarlock/primitives/os/user-namespace';

/** Security modules and filters that the kernel of this machine has. */
export interface KernelFeatures {
  readonly seccomp: boolean;
  readonly apparmor: boolean;
  readonly selinux: boolean;
}

export function kernelFeatures(): KernelFeatures {
  const apparmor = '/sys/module/apparmor/parameters/enabled';
  return {
    seccomp: existsSync('/proc/sys/kernel/seccomp/actions_avail'),
    apparmor: existsSync(apparmor) && readFileSync(apparmor, 'latin1').startsWith('Y'),
    selinux: existsSync('/sys/fs/selinux/enforce'),
  };
}

const sysResource = 1n << 24n;

/**
 * Returns the lowest oom_score_adj that this process may set for other processes: -1000 with the capability CAP_SYS_RESOURCE in the initial user namespace,
 * otherwise its own value.
 */
export function minOomScoreAdj(): number {
  if (!existsSync('/proc/self/oom_score_adj')) return 0;
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1] ?? '0'}`);
  if ((effective & sysResource) !== 0n && mappedIds() === 'all') return -1000;
  return Number(readFileSync('/proc/self/oom_score_adj', 'latin1'));
}
