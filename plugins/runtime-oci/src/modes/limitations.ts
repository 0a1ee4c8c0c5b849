import type { Limitation } from '@oarlock/spi/runtime';
import type { KernelFeatures } from './kernel-features.ts';
import type { RuntimeMode } from './runtime-mode.ts';
import { podSettings, type ModeName } from './pod-settings.ts';

/** Returns the column of the table for a mode. */
export function modeName({ program, user, mapped }: RuntimeMode): ModeName {
  if (user === 'user') return 'user without';
  if (program === 'unshare') return 'root without';
  return mapped === true ? 'user with newuidmap' : 'root with runc';
}

export interface MachineFeatures {
  readonly cgroups: boolean;
  /** True if pods have network namespaces. */
  readonly networks: boolean;
  /** True if processes can be spared by the OOM killer. */
  readonly oomScores: boolean;
  readonly kernel: KernelFeatures;
}

/** Returns what a mode does not enforce on any machine, according to the table. */
export function modeLimitations(mode: ModeName): readonly Limitation[] {
  const found = podSettings.map(({ modes }) => modes[mode]).flatMap((entry) => (entry.kind === 'limited' ? [entry.limitation] : []));
  return [...new Set(found)];
}

/** Returns what containers do not get on this machine. */
export function limitations(mode: RuntimeMode, { cgroups, networks, oomScores, kernel }: MachineFeatures): readonly Limitation[] {
  const ofMode = modeLimitations(modeName(mode)).filter(({ feature }) => feature !== 'resources' || !cgroups);
  const withoutResources = ofMode.some(({ feature }) => feature === 'resources');
  // the settings of a security module that the kernel lacks concern only pods that name them
  const absent = new Set([...(kernel.apparmor ? [] : ['apparmor']), ...(kernel.selinux ? [] : ['selinux'])]);
  return [
    ...ofMode.map((limitation): Limitation => {
      if (!absent.has(limitation.feature)) return limitation;
      const message = `${limitation.feature === 'selinux' ? 'SELinux options' : 'AppArmor profiles'} are not applied: the kernel of the node lacks them`;
      return { ...limitation, message, onRequest: true };
    }),
    ...(kernel.seccomp || ofMode.some(({ feature }) => feature === 'seccomp') ? [] : [withoutSeccomp]),
    ...(cgroups || withoutResources ? [] : [withoutCgroups]),
    ...(oomScores ? [] : [withoutOomScores]),
    ...(networks ? [] : [sharedNetwork]),
  ];
}

const withoutSeccomp: Limitation = { feature: 'seccomp', message: 'seccomp profiles are not applied: the kernel of the node lacks them' };
const withoutCgroups: Limitation = {
  feature: 'resources',
  message: 'limits of memory and CPU are not enforced: control groups cannot be created',
};
const withoutOomScores: Limitation = {
  feature: 'oom-score',
  message: 'the OOM killer does not spare pods of the QoS class Guaranteed: that needs the capability SYS_RESOURCE',
};
const sharedNetwork: Limitation = { feature: 'network', message: 'pods share the network of the node' };
