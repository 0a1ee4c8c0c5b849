import { jsonEqual } from '@oarlock/api/json/json';
import { runtimeClasses } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { RuntimeClass } from '@oarlock/api/types/node-v1';
import { Admission, allow, deny, type AdmissionDecision } from '@oarlock/spi/admission';
import { Client } from '@oarlock/spi/client';
import { z } from 'zod';

const differs = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/** Returns the pod with the overhead and the scheduling constraints of its RuntimeClass, or a denial if the pod conflicts with them. */
function applyRuntimeClass(pod: Pod, { overhead, scheduling }: RuntimeClass): Pod | AdmissionDecision {
  let spec = pod.spec ?? { containers: [] };
  if (overhead !== undefined) {
    const { podFixed = {} } = overhead;
    if (spec.overhead !== undefined && !jsonEqual(spec.overhead, podFixed)) return deny(differs);
    if (spec.overhead === undefined) spec = { ...spec, overhead: podFixed };
  }
  const classSelector = Object.entries(scheduling?.nodeSelector ?? {});
  for (const [key, value] of classSelector) {
    const own = spec.nodeSelector?.[key];
    if (own !== undefined && own !== value)
      return deny(`conflict: runtimeClass.scheduling.nodeSelector[${key}] = ${value}; pod.spec.nodeSelector[${key}] = ${own}`);
  }
  if (classSelector.some(([key]) => spec.nodeSelector?.[key] === undefined))
    spec = { ...spec, nodeSelector: { ...spec.nodeSelector, ...scheduling?.nodeSelector } };
  const held = spec.tolerations ?? [];
  const more = (scheduling?.tolerations ?? []).filter((toleration) => !held.some((each) => jsonEqual(each, toleration)));
  if (more.length > 0) spec = { ...spec, tolerations: [...held, ...more] };
  return spec === pod.spec ? pod : { ...pod, spec };
}

/** Adds the overhead, the node selector and the tolerations of a pod's RuntimeClass to the pod (RuntimeClass). */
export default Admission.plugin({
  id: 'admission-runtime-class',
  config: z.strictObject({}),
  needs: { client: Client },
  create({ client }) {
    const classOf = async ({ spec }: Pod): Promise<RuntimeClass | AdmissionDecision | undefined> => {
      const name = spec?.runtimeClassName;
      if (name === undefined || name === '') return undefined;
      try {
        return await client.get(runtimeClasses, { name });
      } catch (error) {
        if (isStatus(error, 'NotFound')) return deny(`pod rejected: RuntimeClass ${JSON.stringify(name)} not found`);
        throw error;
      }
    };
    const withItsClass = async (pod: Pod): Promise<Pod | AdmissionDecision> => {
      const found = await classOf(pod);
      if (found === undefined) return pod;
      return 'allowed' in found ? found : applyRuntimeClass(pod, found);
    };
    const validateOverhead = async (pod: Pod): Promise<AdmissionDecision> => {
      const found = await classOf(pod);
      if (found !== undefined && 'allowed' in found) return found;
      const { overhead } = pod.spec ?? {};
      if (found?.overhead !== undefined) return jsonEqual(overhead ?? {}, found.overhead.podFixed ?? {}) ? allow : deny(differs);
      return Object.keys(overhead ?? {}).length === 0
        ? allow
        : deny('pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead');
    };
    const names = ({ spec }: Pod) => (spec?.runtimeClassName ?? '') !== '';
    return {
      matches: [{ resources: ['pods'], operations: ['CREATE'] }],
      mutate({ object }) {
        if (object === undefined) return allow;
        return names(object) ? withItsClass(object) : object;
      },
      validate({ object }) {
        const pod: Pod = object ?? {};
        return names(pod) || pod.spec?.overhead !== undefined ? validateOverhead(pod) : allow;
      },
    };
  },
});
