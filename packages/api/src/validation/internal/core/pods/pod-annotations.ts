import { fieldForbidden, invalid } from '../../../../field/field-error.ts';
import type { Pod, PodSpec, Toleration } from '../../../../generated/types/core-v1.ts';
import { isObject } from '../../../../json/json.ts';
import { goSyntaxError } from '../../../../json/syntax-error.ts';
import { validateDescendingPath, type Errors } from '../../checks.ts';
import { validateTolerations } from '../affinity.ts';

export const mirrorPodAnnotation = 'kubernetes.io/config.mirror';
const deletionCostAnnotation = 'controller.kubernetes.io/pod-deletion-cost';
const tolerationsAnnotation = 'scheduler.alpha.kubernetes.io/tolerations';
const podSeccompAnnotation = 'seccomp.security.alpha.kubernetes.io/pod';
const containerSeccompPrefix = 'container.seccomp.security.alpha.kubernetes.io/';
const appArmorPrefix = 'container.apparmor.security.beta.kubernetes.io/';

type Annotations = Readonly<Record<string, string>>;

/** The annotations of a pod or a template, those of the stored pod on update, and the spec beside them. */
export interface AnnotatedSpec {
  readonly annotations: Annotations | undefined;
  readonly old?: Annotations | undefined;
  readonly spec: PodSpec;
}

/** Validates annotations with a meaning for pods (ValidatePodSpecificAnnotations upstream). */
export function validatePodAnnotations(errors: Errors, path: string, { annotations = {}, old, spec }: AnnotatedSpec): void {
  const mirror = annotations[mirrorPodAnnotation];
  if (mirror !== undefined && !spec.nodeName)
    errors.push(invalid(`${path}[${mirrorPodAnnotation}]`, mirror, 'must set spec.nodeName if mirror pod annotation is set'));
  if (annotations[tolerationsAnnotation]) validateTolerationsAnnotation(errors, path, annotations[tolerationsAnnotation]);
  if (!isDeletionCost(annotations[deletionCostAnnotation]) && isDeletionCost(old?.[deletionCostAnnotation]))
    errors.push(invalid(`${path}[${deletionCostAnnotation}]`, annotations[deletionCostAnnotation], 'must be a 32bit integer'));
  for (const [key, profile] of Object.entries(annotations)) {
    if (key === podSeccompAnnotation || key.startsWith(containerSeccompPrefix)) validateSeccompProfile(errors, `${path}.${key}`, profile);
    if (key.startsWith(appArmorPrefix))
      validateAppArmorProfile(errors, `${path}[${key}]`, { name: key.slice(appArmorPrefix.length), profile, spec });
  }
}

const isDeletionCost = (cost: string | undefined) =>
  cost === undefined || (/^(?:0|[1-9]\d*|-\d+)$/.test(cost) && Number(cost) >= -(2 ** 31) && Number(cost) < 2 ** 31);

function validateTolerationsAnnotation(errors: Errors, path: string, text: string): void {
  const syntax = goSyntaxError(text);
  const list: unknown = syntax === undefined ? JSON.parse(text) : undefined;
  if (list === null) return;
  if (Array.isArray(list) && list.every(isObject))
    validateTolerations(errors, `${path}.${tolerationsAnnotation}`, list as readonly Toleration[]);
  else errors.push(invalid(path, tolerationsAnnotation, syntax ?? 'json: cannot unmarshal into Go value of type []core.Toleration'));
}

function validateSeccompProfile(errors: Errors, path: string, profile: string): void {
  if (['runtime/default', 'docker/default', 'unconfined'].includes(profile)) return;
  if (profile.startsWith('localhost/')) validateDescendingPath(errors, path, profile.slice('localhost/'.length));
  else errors.push(invalid(path, profile, 'must be a valid seccomp profile'));
}

function validateAppArmorProfile(
  errors: Errors,
  path: string,
  { name, profile, spec }: { readonly name: string; readonly profile: string; readonly spec: PodSpec },
): void {
  const containers = [...(spec.containers ?? []), ...(spec.initContainers ?? []), ...(spec.ephemeralContainers ?? [])];
  if (!containers.some((container) => container.name === name)) errors.push(invalid(path, name, 'container not found'));
  if (!['', 'runtime/default', 'unconfined'].includes(profile) && !profile.startsWith('localhost/'))
    errors.push(invalid(path, profile, `invalid AppArmor profile name: ${JSON.stringify(profile)}`));
}

/** Rejects changes of annotations that are immutable (ValidatePodSpecificAnnotationUpdates upstream). */
export function validatePodAnnotationUpdates(errors: Errors, pod: Pod, old: Pod): void {
  const now = pod.metadata?.annotations ?? {};
  const before = old.metadata?.annotations ?? {};
  const forbid = (key: string, action: string) => {
    if (key.startsWith(appArmorPrefix))
      errors.push(fieldForbidden(`metadata.annotations[${key}]`, `may not ${action} AppArmor annotations`));
    if (key === mirrorPodAnnotation) errors.push(fieldForbidden(`metadata.annotations[${key}]`, `may not ${action} mirror pod annotation`));
  };
  for (const [key, value] of Object.entries(before)) if (now[key] !== value) forbid(key, 'remove or update');
  for (const key of Object.keys(now)) if (!Object.hasOwn(before, key)) forbid(key, 'add');
}
