import { notSupported } from '../../../field/field-error.ts';
import type { PodSpec } from '../../../generated/types/core-v1.ts';
import type { KubeObject } from '../../../object.ts';
import type { Errors } from '../checks.ts';

/** Paths of the pod specs of all kinds that contain one, by group and kind. */
const podSpecPaths: Readonly<Record<string, string>> = {
  '/Pod': 'spec',
  '/PodTemplate': 'template.spec',
  '/ReplicationController': 'spec.template.spec',
  'apps/Deployment': 'spec.template.spec',
  'apps/ReplicaSet': 'spec.template.spec',
  'apps/DaemonSet': 'spec.template.spec',
  'apps/StatefulSet': 'spec.template.spec',
  'batch/Job': 'spec.template.spec',
  'batch/CronJob': 'spec.jobTemplate.spec.template.spec',
};

const policyAt = (object: KubeObject | undefined, path: string): string | undefined =>
  (
    path.split('.').reduce<unknown>((at, key) => (at as Readonly<Record<string, unknown>> | undefined)?.[key], object) as
      | PodSpec
      | undefined
  )?.securityContext?.seLinuxChangePolicy;

/**
 * Validates `seLinuxChangePolicy`. The feature gate SELinuxMount is off in 1.36, so that only Recursive may be set. An object that has a policy already
 * may also have MountOption (AllowOnlyRecursiveSELinuxChangePolicy upstream).
 */
export function validateSELinuxChangePolicy(
  errors: Errors,
  groupKind: string,
  { object, old }: { readonly object: KubeObject; readonly old: KubeObject | undefined },
): void {
  const path = Object.hasOwn(podSpecPaths, groupKind) ? podSpecPaths[groupKind] : undefined;
  if (path === undefined) return;
  const policy = policyAt(object, path);
  const supported = policyAt(old, path) === undefined ? ['Recursive'] : ['MountOption', 'Recursive'];
  if (policy !== undefined && !supported.includes(policy))
    errors.push(notSupported(`${path}.securityContext.seLinuxChangePolicy`, policy, supported));
}
