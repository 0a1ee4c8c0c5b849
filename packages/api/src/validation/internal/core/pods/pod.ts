import { fieldForbidden, invalid, notSupported, required } from '../../../../field/field-error.ts';
import type { Binding, NodeSelectorTerm, Pod, PodSpec, Toleration } from '../../../../generated/types/core-v1.ts';
import { jsonEqual } from '../../../../json/json.ts';
import { inclusiveRangeError } from '../../../../values/names.ts';
import { validateTolerations } from '../affinity.ts';
import type { Errors } from '../../checks.ts';
import { ephemeralContainerDiff, podSpecDiff } from '../../spec-diff/spec-diff.ts';
import { mirrorPodAnnotation, validatePodAnnotations, validatePodAnnotationUpdates } from './pod-annotations.ts';
import { validatePodSpec } from './pod-spec.ts';
import { validateProfileAnnotations } from './profile-annotations.ts';

export const specOf = (pod: Pod): PodSpec => pod.spec ?? { containers: [] };

/** Validates the spec of a pod with the rules that apply on create and on update. */
export function validatePod(errors: Errors, pod: Pod, old?: Pod): void {
  const spec = specOf(pod);
  validatePodAnnotations(errors, 'metadata.annotations', { annotations: pod.metadata?.annotations, old: old?.metadata?.annotations, spec });
  validatePodSpec(errors, 'spec', spec, pod.metadata ?? {});
  if (spec.serviceAccountName) return;
  for (const [i, volume] of (spec.volumes ?? []).entries()) {
    for (const [j, source] of (volume.projected?.sources ?? []).entries()) {
      if (source.serviceAccountToken !== undefined)
        errors.push(
          fieldForbidden(
            `spec.volumes[${i}].projected.sources[${j}].serviceAccountToken`,
            'must not be specified when serviceAccountName is not set',
          ),
        );
    }
  }
}

export function validatePodCreate(errors: Errors, pod: Pod): void {
  const spec = specOf(pod);
  validatePod(errors, pod);
  if ((spec.ephemeralContainers ?? []).length > 0) errors.push(fieldForbidden('spec.ephemeralContainers', 'cannot be set on create'));
  if (spec.nodeName && (spec.schedulingGates ?? []).length > 0)
    errors.push(fieldForbidden('spec.nodeName', 'cannot be set until all schedulingGates have been cleared'));
  if (spec.hostUsers === false) rejectVolumeDevices(errors, spec);
  validateProfileAnnotations(errors, pod);
}

/** Block devices do not work in a user namespace. Existing pods that have both may be changed. */
function rejectVolumeDevices(errors: Errors, { initContainers = [], containers }: PodSpec): void {
  for (const [list, all] of [['initContainers', initContainers] as const, ['containers', containers] as const])
    for (const [i, { volumeDevices = [] }] of all.entries())
      if (volumeDevices.length > 0) errors.push(fieldForbidden(`spec.${list}[${i}].volumeDevices`, 'when `hostUsers` is false'));
}

const updatable = [
  '`spec.containers[*].image`',
  '`spec.initContainers[*].image`',
  '`spec.activeDeadlineSeconds`',
  '`spec.tolerations` (only additions to existing tolerations)',
  '`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
].join(',');

export function validatePodUpdate(errors: Errors, pod: Pod, old: Pod): void {
  validatePod(errors, pod, old);
  validatePodAnnotationUpdates(errors, pod, old);
  const [spec, before] = [specOf(pod), specOf(old)];
  for (const list of ['containers', 'initContainers'] as const) {
    if ((spec[list] ?? []).length === (before[list] ?? []).length) continue;
    errors.push(fieldForbidden(`spec.${list}`, 'pod updates may not add or remove containers'));
    return;
  }
  if (!validateDeadline(errors, spec.activeDeadlineSeconds, before.activeDeadlineSeconds)) return;
  validateAddedTolerations(errors, spec.tolerations ?? [], before.tolerations ?? []);
  const oldGates = new Set((before.schedulingGates ?? []).map((gate) => gate.name));
  for (const [i, gate] of (spec.schedulingGates ?? []).entries()) {
    if (!oldGates.has(gate.name))
      errors.push(
        fieldForbidden(`spec.schedulingGates[${i}].name`, `only deletion is allowed, but found new scheduling gate '${gate.name}'`),
      );
  }
  if (jsonEqual(spec, before)) return;
  const masked = maskMutableFields(errors, spec, before);
  if (!jsonEqual(masked, before))
    errors.push(fieldForbidden('spec', `pod updates may not change fields other than ${updatable}\n${podSpecDiff(before, masked)}`));
}

/**
 * Validates a change of activeDeadlineSeconds, which can be set once and afterwards only lowered. Returns false if the rest of the spec need not be
 * validated.
 */
function validateDeadline(errors: Errors, now: number | undefined, before: number | undefined): boolean {
  const path = 'spec.activeDeadlineSeconds';
  if (now === undefined) {
    if (before !== undefined) errors.push(invalid(path, undefined, 'must not update from a positive integer to nil value'));
    return true;
  }
  const max = 2 ** 31 - 1;
  if (now < 0 || now > max) errors.push(invalid(path, now, inclusiveRangeError(0, max)));
  else if (before !== undefined && before < now) errors.push(invalid(path, now, 'must be less than or equal to previous value'));
  else return true;
  return false;
}

function validateAddedTolerations(errors: Errors, now: readonly Toleration[], before: readonly Toleration[]): void {
  const keyOf = ({ key, operator, value, effect }: Toleration) => JSON.stringify([key, operator, value, effect]);
  const kept = new Set(now.map(keyOf));
  for (const old of before) {
    if (kept.has(keyOf(old))) continue;
    errors.push(fieldForbidden('spec.tolerations', 'existing toleration can not be modified except its tolerationSeconds'));
    return;
  }
  validateTolerations(errors, 'spec.tolerations', now);
}

/** Returns the new spec with the old values of the mutable fields, to compare the immutable rest. */
function maskMutableFields(errors: Errors, spec: PodSpec, before: PodSpec): PodSpec {
  const result: Record<string, unknown> = { ...spec };
  const restore = (key: keyof PodSpec) => {
    if (before[key] === undefined) delete result[key];
    else result[key] = before[key];
  };
  for (const list of ['containers', 'initContainers'] as const) {
    if (spec[list] !== undefined) result[list] = spec[list].map((container, i) => ({ ...container, image: before[list]?.[i]?.image }));
  }
  for (const key of ['activeDeadlineSeconds', 'schedulingGates', 'tolerations'] as const) restore(key);
  if ((before.terminationGracePeriodSeconds ?? 0) < 0 && spec.terminationGracePeriodSeconds === 1) restore('terminationGracePeriodSeconds');
  if ((before.schedulingGates ?? []).length > 0) maskGatedFields(errors, spec, { before, result, restore });
  return result as unknown as PodSpec;
}

/** KEP-3838: the node affinity of a gated pod can be narrowed. */
function maskGatedFields(
  errors: Errors,
  spec: PodSpec,
  {
    before,
    result,
    restore,
  }: { readonly before: PodSpec; readonly result: Record<string, unknown>; readonly restore: (key: keyof PodSpec) => void },
): void {
  if (!jsonEqual(spec.nodeSelector, before.nodeSelector)) {
    if (Object.entries(before.nodeSelector ?? {}).some(([key, value]) => spec.nodeSelector?.[key] !== value)) {
      errors.push(
        invalid('spec.nodeSelector', spec.nodeSelector, 'only additions to spec.nodeSelector are allowed (no mutations or deletions)'),
      );
    }
    restore('nodeSelector');
  }
  if (jsonEqual(spec.affinity?.nodeAffinity, before.affinity?.nodeAffinity)) return;
  const path = 'spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms';
  const termsOf = (of: PodSpec) => of.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const [now, old] = [termsOf(spec), termsOf(before)];
  if (old.length > 0 && old.length !== now.length)
    errors.push(invalid(path, now, 'no additions/deletions to non-empty NodeSelectorTerms list are allowed'));
  else
    for (const [i, term] of old.entries())
      if (!extendsTerm(now[i] ?? {}, term))
        errors.push(invalid(`${path}[${i}]`, now[i], 'only additions are allowed (no mutations or deletions)'));
  const { nodeAffinity: _, ...others } = spec.affinity ?? {};
  const nodeAffinity = before.affinity?.nodeAffinity;
  const affinity = { ...others, ...(nodeAffinity !== undefined && { nodeAffinity }) };
  if (before.affinity === undefined && Object.keys(affinity).length === 0) delete result['affinity'];
  else result['affinity'] = affinity;
}
function extendsTerm(now: NodeSelectorTerm, old: NodeSelectorTerm): boolean {
  if (!old.matchExpressions?.length && !old.matchFields?.length && (now.matchExpressions?.length || now.matchFields?.length)) return false;
  return (['matchExpressions', 'matchFields'] as const).every((key) =>
    jsonEqual((now[key] ?? []).slice(0, old[key]?.length ?? 0), old[key] ?? []),
  );
}

/** Validates an update through `pods/ephemeralcontainers`, which may add containers but not change or remove them. */
export function validateEphemeralContainersUpdate(errors: Errors, pod: Pod, old: Pod): void {
  if (old.metadata?.annotations?.[mirrorPodAnnotation] !== undefined) {
    errors.push(fieldForbidden('', 'static pods do not support ephemeral containers'));
    return;
  }
  validatePod(errors, pod, old);
  validatePodAnnotationUpdates(errors, pod, old);
  const now = new Map((specOf(pod).ephemeralContainers ?? []).map((container) => [container.name, container]));
  for (const before of specOf(old).ephemeralContainers ?? []) {
    const container = now.get(before.name);
    if (container === undefined)
      errors.push(
        fieldForbidden('spec.ephemeralContainers', `existing ephemeral containers ${JSON.stringify(before.name)} may not be removed\n`),
      );
    else if (!jsonEqual(container, before))
      errors.push(
        fieldForbidden(
          'spec.ephemeralContainers',
          `existing ephemeral containers ${JSON.stringify(before.name)} may not be changed\n${ephemeralContainerDiff(before, container)}`,
        ),
      );
  }
}

/** Validates the body of `pods/binding` and `bindings`. */
export function validateBinding(errors: Errors, { target }: Binding): void {
  if (target?.kind && target.kind !== 'Node') errors.push(notSupported('target.kind', target.kind, ['Node', '<empty>']));
  if (!target?.name) errors.push(required('target.name'));
}
