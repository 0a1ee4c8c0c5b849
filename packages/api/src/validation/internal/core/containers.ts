import { isRestartableInitContainer } from '../../../component-helpers/restartable-init-container.ts';
import { duplicate, fieldForbidden, invalid, fieldNotFound, required, tooMany } from '../../../field/field-error.ts';
import type {
  Container,
  ContainerResizePolicy,
  EphemeralContainer,
  PodSpec,
  Volume,
  VolumeDevice,
  VolumeMount,
} from '../../../generated/types/core-v1.ts';
import {
  validateDescendingPath,
  validateDNSLabel,
  validateOptionalEnum,
  validateEnum,
  validateEnumInOrder,
  type Errors,
} from '../checks.ts';
import { validateContainerPorts, validateEnvVars, validateEnvFrom } from './env.ts';
import { validateLifecycle, validateProbe } from './probes.ts';
import { validateContainerRequirements } from '../../resources.ts';
import { validateContainerSecurity } from './security-context.ts';

/** The context of container validation. */
export interface PodContext {
  readonly spec: PodSpec;
  readonly volumes: ReadonlyMap<string, Volume>;
  readonly claims: ReadonlySet<string>;
  readonly grace: number | undefined;
  readonly hostUsers: boolean;
  /** True for pods, false for pod templates, to which fewer rules apply. */
  readonly isPod: boolean;
}

function validateVolumeMounts(errors: Errors, path: string, container: Container, volumes: ReadonlyMap<string, Volume>): void {
  const { volumeMounts: mounts = [], volumeDevices: devices = [] } = container;
  if (mounts.length === 0) return;
  const [deviceNames, devicePaths] = [new Set(devices.map(({ name }) => name)), new Set(devices.map(({ devicePath }) => devicePath))];
  const paths = new Set<string>();
  for (const [i, mount] of mounts.entries()) {
    const at = `${path}[${i}]`;
    const { name = '', mountPath = '', subPath = '', subPathExpr = '' } = mount;
    if (name === '') errors.push(required(`${at}.name`));
    if (!volumes.has(name)) errors.push(fieldNotFound(`${at}.name`, name));
    if (mountPath === '') errors.push(required(`${at}.mountPath`));
    if (paths.has(mountPath)) errors.push(invalid(`${at}.mountPath`, mountPath, 'must be unique'));
    paths.add(mountPath);
    if (deviceNames.has(name)) errors.push(invalid(`${at}.name`, name, 'must not already exist in volumeDevices'));
    if (devicePaths.has(mountPath)) errors.push(invalid(`${at}.mountPath`, mountPath, 'must not already exist as a path in volumeDevices'));
    // Upstream reports the following errors with the path of the list, not of the mount.
    if (subPath !== '') validateDescendingPath(errors, `${path}.subPath`, subPath);
    if (subPathExpr !== '') {
      if (subPath !== '') errors.push(invalid(`${at}.subPathExpr`, subPathExpr, 'subPathExpr and subPath are mutually exclusive'));
      validateDescendingPath(errors, `${path}.subPathExpr`, subPathExpr);
    }
    validateMountOptions(errors, path, mount, container);
  }
}

function validateMountOptions(errors: Errors, path: string, mount: VolumeMount, container: Container): void {
  const { mountPropagation: propagation, recursiveReadOnly: recursive } = mount;
  validateOptionalEnum(errors, `${path}.mountPropagation`, propagation, ['Bidirectional', 'HostToContainer', 'None']);
  if (propagation === 'Bidirectional' && container.securityContext?.privileged !== true) {
    errors.push(fieldForbidden(`${path}.mountPropagation`, 'Bidirectional mount propagation is available only to privileged containers'));
  }
  validateOptionalEnum(errors, `${path}.recursiveReadOnly`, recursive, ['Disabled', 'Enabled', 'IfPossible']);
  if (recursive !== 'Enabled' && recursive !== 'IfPossible') return;
  if (mount.readOnly !== true) errors.push(fieldForbidden(`${path}.recursiveReadOnly`, 'may only be specified when readOnly is true'));
  if (propagation !== undefined && propagation !== 'None')
    errors.push(fieldForbidden(`${path}.recursiveReadOnly`, 'may only be specified when mountPropagation is None or not specified'));
}

function validateVolumeDevices(
  errors: Errors,
  path: string,
  {
    devices,
    container,
    volumes,
  }: { readonly devices: readonly VolumeDevice[]; readonly container: Container; readonly volumes: ReadonlyMap<string, Volume> },
): void {
  if (devices.length === 0) return;
  const mounts = container.volumeMounts ?? [];
  const [mountNames, mountPaths] = [new Set(mounts.map(({ name }) => name)), new Set(mounts.map(({ mountPath }) => mountPath))];
  const [names, paths] = [new Set<string>(), new Set<string>()];
  for (const [i, { name = '', devicePath = '' }] of devices.entries()) {
    const at = `${path}[${i}]`;
    const volume = volumes.get(name);
    if (name === '') errors.push(required(`${at}.name`));
    if (name !== '' && names.has(name)) errors.push(invalid(`${at}.name`, name, 'must be unique'));
    if (volume === undefined) errors.push(fieldNotFound(`${at}.name`, name));
    else if (volume.persistentVolumeClaim === undefined && volume.ephemeral === undefined)
      errors.push(invalid(`${at}.name`, name, 'can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode'));
    if (devicePath === '') errors.push(required(`${at}.devicePath`));
    if (paths.has(devicePath)) errors.push(invalid(`${at}.devicePath`, devicePath, 'must be unique'));
    if (devicePath.split('/').includes('..')) errors.push(invalid(`${at}.devicePath`, devicePath, "can not contain backsteps ('..')"));
    else paths.add(devicePath);
    if (mountNames.has(name)) errors.push(invalid(`${at}.name`, name, 'must not already exist in volumeMounts'));
    if (mountPaths.has(devicePath))
      errors.push(invalid(`${at}.devicePath`, devicePath, 'must not already exist as a path in volumeMounts'));
    names.add(name);
  }
}

function validateResizePolicy(
  errors: Errors,
  path: string,
  policies: readonly ContainerResizePolicy[],
  podRestartPolicy: string | undefined,
): void {
  const seen = new Set<string>();
  for (const [i, { resourceName = '', restartPolicy = '' }] of policies.entries()) {
    if (seen.has(resourceName)) errors.push(duplicate(`${path}[${i}]`, resourceName));
    seen.add(resourceName);
    validateEnum(errors, path, resourceName, ['cpu', 'memory']);
    validateEnum(errors, path, restartPolicy, ['NotRequired', 'RestartContainer']);
    if (podRestartPolicy === 'Never' && restartPolicy !== 'NotRequired')
      errors.push(invalid(path, restartPolicy, "must be 'NotRequired' when `restartPolicy` is 'Never'"));
  }
}

function validateCommon(errors: Errors, path: string, container: Container, context: PodContext): void {
  if (!container.name) errors.push(required(`${path}.name`));
  else validateDNSLabel(errors, `${path}.name`, container.name);
  if (!container.image) errors.push(required(`${path}.image`));
  validateEnumInOrder(errors, `${path}.terminationMessagePolicy`, {
    value: container.terminationMessagePolicy,
    supported: ['File', 'FallbackToLogsOnError'],
  });
  validateContainerPorts(errors, `${path}.ports`, container.ports ?? []);
  validateEnvVars(errors, `${path}.env`, container.env ?? []);
  validateEnvFrom(errors, `${path}.envFrom`, container.envFrom ?? []);
  validateVolumeMounts(errors, `${path}.volumeMounts`, container, context.volumes);
  validateVolumeDevices(errors, `${path}.volumeDevices`, { devices: container.volumeDevices ?? [], container, volumes: context.volumes });
  validateEnum(errors, `${path}.imagePullPolicy`, container.imagePullPolicy, ['Always', 'IfNotPresent', 'Never']);
  validateContainerRequirements(errors, `${path}.resources`, container.resources, context.claims);
  validateResizePolicy(errors, `${path}.resizePolicy`, container.resizePolicy ?? [], context.spec.restartPolicy);
  validateContainerSecurity(errors, `${path}.securityContext`, container.securityContext, context.hostUsers);
}

/** Validates an image. The image of a template may have surrounding white space, that of a pod may not. */
function validateImage(errors: Errors, path: string, container: Container, { isPod }: PodContext): void {
  const text = container.image ?? '';
  if (isPod && text.trim() !== text) errors.push(invalid(`${path}.image`, text, 'must not have leading or trailing whitespace'));
}

function validateProbes(errors: Errors, path: string, container: Container, { grace, spec }: PodContext): void {
  validateLifecycle(errors, `${path}.lifecycle`, container.lifecycle, { grace, os: spec.os?.name });
  validateProbe(errors, `${path}.livenessProbe`, { value: container.livenessProbe, kind: 'liveness', grace });
  validateProbe(errors, `${path}.readinessProbe`, { value: container.readinessProbe, kind: 'readiness', grace });
  validateProbe(errors, `${path}.startupProbe`, { value: container.startupProbe, kind: 'startup', grace });
}

function validateHostPorts(errors: Errors, path: string, containers: readonly (readonly [number, Container])[]): void {
  const usedPorts = new Set<string>();
  for (const [i, container] of containers) {
    for (const [j, { protocol = '', hostIP = '', hostPort = 0 }] of (container.ports ?? []).entries()) {
      if (hostPort === 0) continue;
      const key = `${protocol}/${hostIP}/${hostPort}`;
      if (usedPorts.has(key)) errors.push(duplicate(`${path}[${i}].ports[${j}].hostPort`, key));
      usedPorts.add(key);
    }
  }
}

/** Validates the restart rules of a container (KEP-5307). */
function validateRestartRules(errors: Errors, path: string, container: Container): void {
  const rules = container.restartPolicyRules ?? [];
  if (rules.length > 0 && container.restartPolicy === undefined)
    errors.push(required(`${path}.restartPolicy`, 'must specify restartPolicy when restart rules are used'));
  if (rules.length > 20) errors.push(tooMany(`${path}.restartPolicyRules`, rules.length, 20));
  for (const [i, rule] of rules.entries()) {
    const at = `${path}.restartPolicyRules[${i}]`;
    validateEnum(errors, `${at}.action`, rule.action, ['Restart', 'RestartAllContainers']);
    if (rule.exitCodes === undefined) errors.push(required(`${at}.exitCodes`, 'must be specified'));
    else {
      const { operator, values = [] } = rule.exitCodes;
      validateEnum(errors, `${at}.exitCodes.operator`, operator, ['In', 'NotIn']);
      if (values.length > 255) errors.push(tooMany(`${at}.exitCodes.values`, values.length, 255));
    }
  }
}

export function validateContainers(errors: Errors, path: string, list: readonly Container[], context: PodContext): void {
  if (list.length === 0) {
    errors.push(required(path));
    return;
  }
  const names = new Set<string>();
  for (const [i, container] of list.entries()) {
    const at = `${path}[${i}]`;
    validateCommon(errors, at, container, context);
    validateImage(errors, at, container, context);
    if (names.has(container.name)) errors.push(duplicate(`${at}.name`, container.name));
    names.add(container.name);
    validateProbes(errors, at, container, context);
    validateOptionalEnum(errors, `${at}.restartPolicy`, container.restartPolicy, ['Always', 'Never', 'OnFailure']);
    validateRestartRules(errors, at, container);
  }
  validateHostPorts(errors, path, [...list.entries()]);
}

export function validateInitContainers(errors: Errors, path: string, list: readonly Container[], context: PodContext): void {
  if (list.length === 0) return;
  const names = new Set((context.spec.containers ?? []).map((container) => container.name));
  for (const [i, container] of list.entries()) {
    const at = `${path}[${i}]`;
    validateCommon(errors, at, container, context);
    validateImage(errors, at, container, context);
    validateOptionalEnum(errors, `${at}.restartPolicy`, container.restartPolicy, ['Always', 'Never', 'OnFailure']);
    validateRestartRules(errors, at, container);
    if (names.has(container.name)) errors.push(duplicate(`${at}.name`, container.name));
    else if (container.name) names.add(container.name);
    // Init containers run one at a time and so may use the same host port.
    validateHostPorts(errors, path, [[i, container]]);
    if (isRestartableInitContainer(container)) validateProbes(errors, at, container, context);
    else {
      for (const key of ['lifecycle', 'livenessProbe', 'readinessProbe', 'startupProbe'] as const) {
        if (container[key] !== undefined)
          errors.push(fieldForbidden(`${at}.${key}`, 'may not be set for init containers without restartPolicy=Always'));
      }
      const restart = 'RestartContainer';
      for (const [j, { restartPolicy }] of (container.resizePolicy ?? []).entries())
        if (restartPolicy === restart)
          errors.push(
            invalid(
              `${at}.resizePolicy[${j}].restartPolicy`,
              restart,
              "must not be set to 'RestartContainer' for non-sidecar initContainers",
            ),
          );
    }
  }
}

const forbiddenForEphemeral = [
  'ports',
  'resources',
  'livenessProbe',
  'readinessProbe',
  'startupProbe',
  'lifecycle',
  'resizePolicy',
  'restartPolicy',
  'restartPolicyRules',
] as const;
export function validateEphemeralContainers(errors: Errors, path: string, list: readonly EphemeralContainer[], context: PodContext): void {
  if (list.length === 0) return;
  const others = new Set([...(context.spec.containers ?? []), ...(context.spec.initContainers ?? [])].map((container) => container.name));
  const names = new Set(others);
  for (const [i, container] of list.entries()) {
    const at = `${path}[${i}]`;
    validateCommon(errors, at, container, context);
    validateImage(errors, at, container, { ...context, isPod: true });
    if (names.has(container.name)) errors.push(duplicate(`${at}.name`, container.name));
    names.add(container.name);
    const target = container.targetContainerName ?? '';
    if (target !== '' && !others.has(target)) errors.push(fieldNotFound(`${at}.targetContainerName`, target));
    for (const key of forbiddenForEphemeral) {
      const value = container[key];
      const empty = value === undefined || (typeof value === 'object' && Object.keys(value).length === 0);
      if (!empty) errors.push(fieldForbidden(`${at}.${key}`, 'cannot be set for an Ephemeral Container'));
    }
    for (const [j, mount] of (container.volumeMounts ?? []).entries()) {
      for (const key of ['subPath', 'subPathExpr'] as const)
        if (mount[key]) errors.push(fieldForbidden(`${at}.volumeMounts[${j}].${key}`, 'cannot be set for an Ephemeral Container'));
    }
  }
}
