import type { Limitation } from '@oarlock/spi/runtime';

export const modeNames = ['root with runc', 'root without', 'user with newuidmap', 'user without'] as const;
export type ModeName = (typeof modeNames)[number];

/**
 * What a mode does with a setting of pods: enforces it, with a remark if only within bounds; rejects pods that request it; or lacks it, which the node and
 * events of the pods report.
 */
export type Enforcement =
  | { readonly kind: 'enforced'; readonly remark?: string }
  | { readonly kind: 'rejected'; readonly remark?: string }
  /** `unless` is the case in which the mode enforces it. */
  | { readonly kind: 'limited'; readonly limitation: Limitation; readonly unless?: string };

export interface PodSetting {
  readonly fields: string;
  readonly modes: Readonly<Record<ModeName, Enforcement>>;
}

const yes: Enforcement = { kind: 'enforced' };
const within = (remark: string): Enforcement => ({ kind: 'enforced', remark });
const rejected = (remark?: string): Enforcement => ({ kind: 'rejected', ...(remark !== undefined && { remark }) });
const notEnforced = (feature: Limitation['feature'], message: string): Enforcement => ({
  kind: 'limited',
  limitation: { feature, message },
});

const seccomp = notEnforced('seccomp', 'seccomp profiles are not applied');
const apparmor = notEnforced('apparmor', 'AppArmor profiles are not applied');
const selinux = notEnforced('selinux', 'SELinux options are not applied');
const mknod = notEnforced('capabilities', 'the capability MKNOD is not given');
const users = notEnforced('users', 'every user of an image has the rights of one user, and groups are not applied');
const resources: Enforcement = {
  kind: 'limited',
  limitation: {
    feature: 'resources',
    message: 'limits of memory and CPU are not enforced: no control group of version 2 with both is delegated to the user',
  },
  unless: 'in a delegated control group of version 2',
};
const hugePages = notEnforced('huge-pages', 'huge pages are not limited, and containers are not bound to CPUs');
const privileges = notEnforced('privileged', 'privileged containers have the rights of the user who runs Oarlock, not those of root');
const sharing = notEnforced('namespaces', 'containers of a pod do not share process and IPC namespaces');

/** The entry for one mode after another, the last for all modes that follow. */
function setting(fields: string, ...entries: readonly [Enforcement, ...Enforcement[]]): PodSetting {
  const last = entries[entries.length - 1] ?? yes;
  const [runc = last, root = last, mapped = last, user = last] = entries;
  return { fields, modes: { 'root with runc': runc, 'root without': root, 'user with newuidmap': mapped, 'user without': user } };
}

/** What each mode enforces. The modes, the reports of the node and the page about them follow from this table; tests compare it with containers. */
export const podSettings: readonly PodSetting[] = [
  setting('`runAsUser`, `runAsGroup`', yes, yes, yes, users),
  setting('`runAsNonRoot`', within('by the kubelet, before the container starts')),
  setting('`fsGroup`', yes, yes, yes, users),
  setting('`supplementalGroups`, `supplementalGroupsPolicy`', yes, yes, yes, users),
  setting('`capabilities`', yes, mknod, mknod, mknod),
  setting('`privileged`', yes, yes, privileges, privileges),
  setting('`readOnlyRootFilesystem`', yes),
  setting('`allowPrivilegeEscalation: false`', yes),
  setting('`seccompProfile`', yes, seccomp, yes, seccomp),
  setting(
    '`appArmorProfile`',
    notEnforced('apparmor', 'AppArmor profiles of type RuntimeDefault are not applied, those of type Localhost are'),
    apparmor,
    apparmor,
    apparmor,
  ),
  setting('`seLinuxOptions`', selinux),
  setting('`hostUsers: false`, `procMount: Unmasked`', rejected('by the kubelet: pods have no user namespaces of their own')),
  setting('masked and read-only paths of `/proc` and `/sys`', yes),
  setting('`sysctls`', yes, yes, yes, rejected()),
  setting('limits of memory and CPU', yes, yes, resources, resources),
  setting('limits of huge pages, exclusive CPUs', yes, hugePages, hugePages, hugePages),
  setting('`hostPID`, `hostIPC`, `hostNetwork`', yes, yes, within('of the node, which is that of the user'), yes),
  setting('one IPC namespace for a pod', yes, yes, yes, sharing),
  setting('`shareProcessNamespace`, ephemeral containers with a target', yes, yes, yes, rejected()),
  setting('devices of device plugins', yes, within('not restricted by a control group'), within('those that the user may access')),
  setting('`mountPropagation: Bidirectional`', yes, rejected(), yes, rejected()),
];
