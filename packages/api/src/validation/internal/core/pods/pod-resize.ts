import { fieldForbidden, invalid } from '../../../../field/field-error.ts';
import type { Container, Pod, PodSpec, ResourceRequirements } from '../../../../generated/types/core-v1.ts';
import { jsonEqual } from '../../../../json/json.ts';
import { qosClass } from '../../../../component-helpers/qos-class.ts';
import type { Errors } from '../../checks.ts';
import { mirrorPodAnnotation } from './pod-annotations.ts';
import { validatePod, specOf } from './pod.ts';

/**
 * Validates an update through `pods/resize`, which may change cpu and memory of containers, of init containers, and of the pod if it had
 * pod-level resources (KEP-1287, KEP-5419).
 */
export function validateResizeUpdate(errors: Errors, pod: Pod, old: Pod): void {
  if (old.metadata?.annotations?.[mirrorPodAnnotation] !== undefined) {
    errors.push(fieldForbidden('', 'static pods cannot be resized'));
    return;
  }
  validatePod(errors, pod, old);
  const [spec, before] = [specOf(pod), specOf(old)];
  if (before.os?.name === 'windows') errors.push(fieldForbidden('', 'windows pods cannot be resized'));
  const { qosClass: qos = qosClass(before) } = old.status ?? {};
  if (qosClass(spec) !== qos) errors.push(invalid('spec', qos, 'Pod QOS Class may not change as a result of resizing'));
  for (const list of ['initContainers', 'containers'] as const) {
    for (const [i, container] of (before[list] ?? []).entries()) {
      const now = spec[list]?.[i];
      if (now === undefined) continue;
      const path = `spec.${list}[${i}].resources`;
      for (const key of ['requests', 'limits'] as const) {
        if (Object.keys(container.resources?.[key] ?? {}).some((name) => now.resources?.[key]?.[name] === undefined))
          errors.push(fieldForbidden(`${path}.${key}`, `resource ${key} cannot be removed`));
      }
    }
  }
  for (const key of ['requests', 'limits'] as const) {
    if (Object.keys(before.resources?.[key] ?? {}).some((name) => spec.resources?.[key]?.[name] === undefined))
      errors.push(fieldForbidden(`spec.resources.${key}`, `resource ${key} cannot be removed`));
  }
  const whole = restoreCpuAndMemory(spec.resources, before.resources);
  const masked = {
    ...spec,
    ...maskResources('containers', spec, before),
    ...maskResources('initContainers', spec, before),
    ...(before.resources !== undefined && { resources: whole }),
  };
  if (!jsonEqual(masked, before)) errors.push(fieldForbidden('spec', 'only cpu and memory resources are mutable'));
}

function maskResources(list: 'containers' | 'initContainers', spec: PodSpec, before: PodSpec): Partial<PodSpec> {
  if (spec[list] === undefined) return {};
  return {
    [list]: spec[list].map((container, i): Container => {
      const old = before[list]?.[i];
      if (old === undefined) return container;
      const { resources: _, ...rest } = container;
      const resources = restoreCpuAndMemory(container.resources, old.resources);
      return { ...rest, ...(resources !== undefined && { resources }) };
    }),
  };
}
function restoreCpuAndMemory(now: ResourceRequirements = {}, before: ResourceRequirements | undefined): ResourceRequirements | undefined {
  const result: Record<string, unknown> = { ...now };
  for (const key of ['requests', 'limits'] as const) {
    const { cpu: _cpu, memory: _memory, ...others } = now[key] ?? {};
    const { cpu, memory } = before?.[key] ?? {};
    const list = { ...others, ...(cpu !== undefined && { cpu }), ...(memory !== undefined && { memory }) };
    if (Object.keys(list).length > 0 || before?.[key] !== undefined) result[key] = list;
    else delete result[key];
  }
  return before === undefined && Object.keys(result).length === 0 ? undefined : result;
}
