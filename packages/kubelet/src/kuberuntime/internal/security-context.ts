import { join } from 'node:path';
import { thermalThrottlePaths } from '@oarlock/primitives/os/thermal-throttle';
import type { AppArmorProfile, Container, EphemeralContainer, Pod, SeccompProfile } from '@oarlock/api/types/core-v1';
import type { ContainerConfig, IdMappings, Image, LinuxSandboxSecurity, NamespaceOptions, SecurityProfile } from '@oarlock/spi/runtime';
import { isHostNetwork } from '../../pod-util/pods.ts';

const maskedPaths = [
  '/proc/asound',
  '/proc/acpi',
  '/proc/interrupts',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/proc/sched_debug',
  '/proc/scsi',
  '/sys/firmware',
  '/sys/devices/virtual/powercap',
];
const readonlyPaths = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];

export interface SecurityContextInputs {
  /** The directory that contains `seccomp`, the directory of Localhost profiles. */
  readonly rootDir: string;
  /** True if the network plugin puts the pod into the node's network namespace. */
  readonly nodeNetwork: boolean;
  /** The id mappings of the pod's user namespace; undefined unless `hostUsers` is false. */
  readonly users?: IdMappings | undefined;
}

export function namespaceOptions(
  pod: Pod,
  { nodeNetwork, users }: Pick<SecurityContextInputs, 'nodeNetwork' | 'users'>,
  targetId?: string,
): NamespaceOptions {
  const { hostPID, hostIPC, shareProcessNamespace } = pod.spec ?? {};
  return {
    network: isHostNetwork(pod) || nodeNetwork ? 'NODE' : 'POD',
    pid: hostPID ? 'NODE' : targetId !== undefined ? 'TARGET' : shareProcessNamespace ? 'POD' : 'CONTAINER',
    ipc: hostIPC ? 'NODE' : 'POD',
    ...(targetId !== undefined && !hostPID && { targetId }),
    ...(users && { users }),
  };
}

function seccompOf(profile: SeccompProfile | undefined, rootDir: string): SecurityProfile {
  if (profile?.type === 'RuntimeDefault') return { type: 'RuntimeDefault' };
  if (profile?.type === 'Localhost') return { type: 'Localhost', localhostRef: join(rootDir, 'seccomp', profile.localhostProfile ?? '') };
  return { type: 'Unconfined' };
}

function apparmorOf(profile: AppArmorProfile | undefined): SecurityProfile | undefined {
  if (profile === undefined) return undefined;
  if (profile.type === 'Localhost') return { type: 'Localhost', localhostRef: profile.localhostProfile ?? '' };
  return { type: profile.type === 'Unconfined' ? 'Unconfined' : 'RuntimeDefault' };
}

function groupsOf(pod: Pod): readonly number[] {
  const { supplementalGroups = [], fsGroup } = pod.spec?.securityContext ?? {};
  return fsGroup === undefined ? supplementalGroups : [...new Set([...supplementalGroups, fsGroup])];
}

function policyOf({ spec }: Pod): { readonly supplementalGroupsPolicy?: 'Strict' } {
  return spec?.securityContext?.supplementalGroupsPolicy === 'Strict' ? { supplementalGroupsPolicy: 'Strict' } : {};
}

export function sandboxSecurityContext(pod: Pod, facts: SecurityContextInputs): LinuxSandboxSecurity {
  const context = pod.spec?.securityContext;
  const privileged = [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])].some(
    (container) => container.securityContext?.privileged === true,
  );
  const apparmor = apparmorOf(context?.appArmorProfile);
  const groups = groupsOf(pod);
  return {
    namespaces: namespaceOptions(pod, facts),
    privileged,
    // as upstream: the sandbox's pause process is always confined
    seccomp: { type: 'RuntimeDefault' },
    ...(apparmor && { apparmor }),
    ...(context?.seLinuxOptions && { selinux: context.seLinuxOptions }),
    ...(context?.runAsUser !== undefined && { runAsUser: context.runAsUser }),
    ...(context?.runAsGroup !== undefined && { runAsGroup: context.runAsGroup }),
    ...(groups.length > 0 && { supplementalGroups: groups }),
    ...policyOf(pod),
  };
}

/** Returns the CRI security context of a container. `image` provides the default user. */
export function containerSecurityContext(
  pod: Pod,
  container: Container | EphemeralContainer,
  {
    image,
    facts,
    targetId,
  }: { readonly image: Image | undefined; readonly facts: SecurityContextInputs; readonly targetId?: string | undefined },
): ContainerConfig['linux']['security'] {
  const ofPod = pod.spec?.securityContext;
  const own = container.securityContext;
  const privileged = own?.privileged === true;
  const user = own?.runAsUser ?? ofPod?.runAsUser;
  const group = own?.runAsGroup ?? ofPod?.runAsGroup;
  const apparmor = privileged ? undefined : apparmorOf(own?.appArmorProfile ?? ofPod?.appArmorProfile);
  const selinux = own?.seLinuxOptions ?? ofPod?.seLinuxOptions;
  const groups = groupsOf(pod);
  const unmasked = privileged || own?.procMount === 'Unmasked';
  const asUser = user ?? image?.uid;
  return {
    namespaces: namespaceOptions(pod, facts, targetId),
    privileged,
    seccomp: privileged ? { type: 'Unconfined' } : seccompOf(own?.seccompProfile ?? ofPod?.seccompProfile, facts.rootDir),
    ...(apparmor && { apparmor }),
    ...(selinux && { selinux }),
    ...(asUser !== undefined && { runAsUser: asUser }),
    ...(group !== undefined && { runAsGroup: group }),
    ...(asUser === undefined && image?.username && { runAsUsername: image.username }),
    ...(groups.length > 0 && { supplementalGroups: groups }),
    ...policyOf(pod),
    ...(own?.readOnlyRootFilesystem !== undefined && { readonlyRootfs: own.readOnlyRootFilesystem }),
    ...(own?.capabilities && { capabilities: { add: own.capabilities.add ?? [], drop: own.capabilities.drop ?? [] } }),
    noNewPrivs: own?.allowPrivilegeEscalation === false,
    ...(!unmasked && { maskedPaths: [...maskedPaths, ...thermalThrottlePaths()], readonlyPaths }),
  };
}

/** Checks `runAsNonRoot`. @throws Error if the pod requires a non-root user and the container runs, or may run, as root */
export function verifyRunAsNonRoot(pod: Pod, container: Container | EphemeralContainer, image: Image | undefined): void {
  const nonRoot = container.securityContext?.runAsNonRoot ?? pod.spec?.securityContext?.runAsNonRoot;
  if (nonRoot !== true) return;
  const user = container.securityContext?.runAsUser ?? pod.spec?.securityContext?.runAsUser;
  const where = `(pod: "${pod.metadata?.name}_${pod.metadata?.namespace}(${pod.metadata?.uid})", container: ${container.name})`;
  if (user !== undefined) {
    if (user === 0) throw new Error(`container's runAsUser breaks non-root policy ${where}`);
    return;
  }
  if (image === undefined) return;
  if (image.uid === undefined && image.username)
    throw new Error(
      `container has runAsNonRoot and image has non-numeric user (${image.username}), cannot verify user is non-root ${where}`,
    );
  // an image without a user runs as root
  if (!image.uid) throw new Error(`container has runAsNonRoot and image will run as root ${where}`);
}
