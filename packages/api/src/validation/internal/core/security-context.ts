import { duplicate, fieldForbidden, invalid, notSupported, required, tooLong } from '../../../field/field-error.ts';
import type { AppArmorProfile, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext } from '../../../generated/types/core-v1.ts';
import { isGroupId, isUserId } from '../../../values/names.ts';
import { validateDescendingPath, validateOptionalEnum, addInvalid, type Errors } from '../checks.ts';
import { validateWindowsOptions } from './windows-options.ts';

const profileTypes = ['Localhost', 'RuntimeDefault', 'Unconfined'];

function validateSeccomp(errors: Errors, path: string, profile: SeccompProfile | undefined): void {
  if (profile === undefined) return;
  if (!profile.type) errors.push(required(`${path}.type`, 'type is required when seccompProfile is set'));
  else if (!profileTypes.includes(profile.type)) errors.push(notSupported(`${path}.type`, profile.type, profileTypes));
  if (profile.type !== 'Localhost') {
    if (profile.localhostProfile !== undefined)
      errors.push(invalid(`${path}.localhostProfile`, profile, 'can only be set when seccomp type is Localhost'));
  } else if (profile.localhostProfile === undefined)
    errors.push(required(`${path}.localhostProfile`, 'must be set when seccomp type is Localhost'));
  else validateDescendingPath(errors, `${path}.localhostProfile`, profile.localhostProfile);
}

function validateAppArmor(errors: Errors, path: string, profile: AppArmorProfile | undefined): void {
  if (profile === undefined) return;
  const { type, localhostProfile: local } = profile;
  if (type === 'Localhost') {
    if (local === undefined || local === '')
      errors.push(required(`${path}.localhostProfile`, 'must be set when AppArmor type is Localhost'));
    else if (local.trim() !== local) errors.push(invalid(`${path}.localhostProfile`, local, 'must not be padded with whitespace'));
    if ((local ?? '').length > 4095) errors.push(tooLong(`${path}.localhostProfile`, 4095));
  } else if (!type) errors.push(required(`${path}.type`, 'type is required when appArmorProfile is set'));
  else if (!profileTypes.includes(type)) errors.push(notSupported(`${path}.type`, type, profileTypes));
  else if (local !== undefined) errors.push(invalid(`${path}.localhostProfile`, local, 'can only be set when AppArmor type is Localhost'));
}

export function validateContainerSecurity(errors: Errors, path: string, context: SecurityContext | undefined, hostUsers: boolean): void {
  if (context === undefined) return;
  const { runAsUser, runAsGroup, procMount } = context;
  if (runAsUser !== undefined) addInvalid(errors, `${path}.runAsUser`, runAsUser, isUserId(runAsUser));
  if (runAsGroup !== undefined) addInvalid(errors, `${path}.runAsGroup`, runAsGroup, isGroupId(runAsGroup));
  validateOptionalEnum(errors, `${path}.procMount`, procMount, ['Default', 'Unmasked']);
  if (hostUsers && procMount === 'Unmasked')
    errors.push(invalid(`${path}.procMount`, procMount, '`hostUsers` must be false to use `Unmasked`'));
  validateSeccomp(errors, `${path}.seccompProfile`, context.seccompProfile);
  if (context.allowPrivilegeEscalation === false) {
    if (context.privileged === true)
      errors.push(invalid(path, context, 'cannot set `allowPrivilegeEscalation` to false and `privileged` to true'));
    if (context.capabilities?.add?.includes('CAP_SYS_ADMIN') === true)
      errors.push(invalid(path, context, 'cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN'));
  }
  validateWindowsOptions(errors, `${path}.windowsOptions`, context.windowsOptions);
  validateAppArmor(errors, `${path}.appArmorProfile`, context.appArmorProfile);
}

const segment = '[a-z0-9]([-_a-z0-9]*[a-z0-9])?';
const sysctlPattern = `^(${segment}[\\./])*${segment}$`;
/** Equivalent to upstream's pattern without nested repetition, which would take exponential time for hostile names. */
const isSysctl = (name: string) =>
  name.length <= 253 && name.split(/[./]/).every((part) => /^[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?$/.test(part));

function validateSysctls(errors: Errors, path: string, context: PodSecurityContext, spec: PodSpec): void {
  const seen = new Set<string>();
  for (const [i, { name = '' }] of (context.sysctls ?? []).entries()) {
    const at = `${path}[${i}].name`;
    if (name === '') errors.push(required(at));
    else if (!isSysctl(name)) errors.push(invalid(at, name, `must have at most 253 characters and match regex ${sysctlPattern}`));
    else if (seen.has(name)) errors.push(duplicate(at, name));
    const dotted = name.replaceAll('/', '.');
    if (spec.hostNetwork === true && dotted.startsWith('net.'))
      errors.push(invalid(at, name, "may not be specified when 'hostNetwork' is true"));
    if (spec.hostIPC === true && (dotted.startsWith('fs.mqueue.') || /^kernel\.(shm|msg|sem)/.test(dotted)))
      errors.push(invalid(at, name, "may not be specified when 'hostIPC' is true"));
    seen.add(name);
  }
}

export function validatePodSecurity(errors: Errors, path: string, context: PodSecurityContext | undefined, spec: PodSpec): void {
  if (spec.shareProcessNamespace === true && spec.hostPID === true) {
    errors.push(invalid(`${path}.shareProcessNamespace`, true, 'ShareProcessNamespace and HostPID cannot both be enabled'));
  }
  if (context === undefined) return;
  const { fsGroup, runAsUser, runAsGroup } = context;
  if (fsGroup !== undefined) addInvalid(errors, `${path}.fsGroup`, fsGroup, isGroupId(fsGroup));
  if (runAsUser !== undefined) addInvalid(errors, `${path}.runAsUser`, runAsUser, isUserId(runAsUser));
  if (runAsGroup !== undefined) addInvalid(errors, `${path}.runAsGroup`, runAsGroup, isGroupId(runAsGroup));
  for (const [i, group] of (context.supplementalGroups ?? []).entries())
    addInvalid(errors, `${path}.supplementalGroups[${i}]`, group, isGroupId(group));
  validateSysctls(errors, `${path}.sysctls`, context, spec);
  validateOptionalEnum(errors, `${path}.fsGroupChangePolicy`, context.fsGroupChangePolicy, ['Always', 'OnRootMismatch']);
  validateSeccomp(errors, `${path}.seccompProfile`, context.seccompProfile);
  validateWindowsOptions(errors, `${path}.windowsOptions`, context.windowsOptions);
  validateAppArmor(errors, `${path}.appArmorProfile`, context.appArmorProfile);
  validateOptionalEnum(errors, `${path}.supplementalGroupsPolicy`, context.supplementalGroupsPolicy, ['Merge', 'Strict']);
}

const linuxOnly = {
  podContext: [
    'appArmorProfile',
    'seLinuxOptions',
    'seccompProfile',
    'fsGroup',
    'fsGroupChangePolicy',
    'sysctls',
    'runAsUser',
    'runAsGroup',
    'supplementalGroups',
    'supplementalGroupsPolicy',
    'seLinuxChangePolicy',
  ],
  pod: ['hostUsers', 'hostPID', 'hostIPC', 'shareProcessNamespace'],
  container: [
    'appArmorProfile',
    'seLinuxOptions',
    'seccompProfile',
    'capabilities',
    'readOnlyRootFilesystem',
    'privileged',
    'allowPrivilegeEscalation',
    'procMount',
    'runAsUser',
    'runAsGroup',
  ],
} as const;

/** Rejects fields that the other operating system does not support. */
export function validateOperatingSystem(errors: Errors, path: string, spec: PodSpec): void {
  const { os } = spec;
  if (os === undefined) return;
  if (!os.name) {
    errors.push(required(`${path}.os.name`, 'cannot be empty'));
    return;
  }
  if (os.name !== 'linux' && os.name !== 'windows') {
    errors.push(notSupported(`${path}.os`, os.name, ['linux', 'windows']));
    return;
  }
  const forbid = (at: string, value: object | undefined, keys: readonly string[], message: string) => {
    for (const key of keys)
      if (value !== undefined && (value as Readonly<Record<string, unknown>>)[key] !== undefined)
        errors.push(fieldForbidden(`${at}.${key}`, message));
  };
  const linux = os.name === 'linux';
  const message = linux ? 'windows options cannot be set for a linux pod' : 'cannot be set for a windows pod';
  forbid(`${path}.securityContext`, spec.securityContext, linux ? ['windowsOptions'] : linuxOnly.podContext, message);
  if (!linux) forbid(path, spec, linuxOnly.pod, message);
  for (const list of ['initContainers', 'containers', 'ephemeralContainers'] as const) {
    for (const [i, container] of (spec[list] ?? []).entries()) {
      forbid(`${path}.${list}[${i}].securityContext`, container.securityContext, linux ? ['windowsOptions'] : linuxOnly.container, message);
    }
  }
}
