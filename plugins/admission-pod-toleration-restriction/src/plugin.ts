import { isObject } from '@oarlock/api/json/json';
import { namespaces } from '@oarlock/api/resources';
import type { Pod, Toleration } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';

const defaults = 'scheduler.alpha.kubernetes.io/defaultTolerations';
const whitelist = 'scheduler.alpha.kubernetes.io/tolerationsWhitelist';
const toleration = z.strictObject({
  key: z.string().optional(),
  operator: z.enum(['Exists', 'Equal']).optional(),
  value: z.string().optional(),
  effect: z.string().optional(),
  tolerationSeconds: z.int().optional(),
});
const list = z.array(toleration);
const memoryPressure: Toleration = { key: 'node.kubernetes.io/memory-pressure', operator: 'Exists', effect: 'NoSchedule' };

/** Returns true if toleration `a` tolerates every taint that `b` tolerates. */
function covers(a: Toleration, b: Toleration): boolean {
  if (a.key && a.key !== b.key) return false;
  if (a.effect && a.effect !== b.effect) return false;
  if (
    a.effect === 'NoExecute' &&
    a.tolerationSeconds !== undefined &&
    (b.tolerationSeconds === undefined || b.tolerationSeconds > a.tolerationSeconds)
  )
    return false;
  return a.operator === 'Exists' || (b.operator !== 'Exists' && (a.value ?? '') === (b.value ?? ''));
}

const isBestEffort = ({ spec }: Pod): boolean =>
  [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].every(({ resources }) =>
    [resources?.requests, resources?.limits].every((amounts) => !('cpu' in (amounts ?? {})) && !('memory' in (amounts ?? {}))),
  );

/**
 * Adds the default tolerations of the namespace to its pods, and rejects pods with tolerations outside the namespace's whitelist
 * (PodTolerationRestriction).
 */
export default Admission.plugin({
  id: 'admission-pod-toleration-restriction',
  config: z.strictObject({
    /** The default tolerations of namespaces without the annotation. */
    default: list.default([]),
    whitelist: list.default([]),
  }),
  needs: { client: Client, informers: Informers },
  create({ client, informers, config }) {
    const known = informers.forResource(namespaces);
    const listed = async (name: string, annotation: string, otherwise: readonly Toleration[]): Promise<readonly Toleration[]> => {
      const { metadata } = known.get(name) ?? (await client.get(namespaces, { name }));
      const text = metadata?.annotations?.[annotation];
      if (text === undefined) return otherwise;
      const value: unknown = text === '' ? [] : JSON.parse(text);
      if (!Array.isArray(value) || !value.every(isObject))
        throw new Error(`the annotation ${annotation} of namespace ${name} is not a list of tolerations`);
      return value as readonly Toleration[];
    };
    return {
      matches: [{ resources: ['pods'], operations: ['CREATE', 'UPDATE'] }],
      async mutate({ object, namespace, operation }) {
        if (object === undefined) return allow;
        const pod: Pod = object;
        const held = pod.spec?.tolerations ?? [];
        const required = [
          ...(operation === 'CREATE' ? await listed(namespace, defaults, config.default as readonly Toleration[]) : []),
          ...(isBestEffort(pod) ? [] : [memoryPressure]),
        ];
        const missing = required.filter((each, at) => ![...held, ...required.slice(0, at)].some((other) => covers(other, each)));
        return missing.length === 0 ? object : { ...pod, spec: { ...pod.spec, tolerations: [...missing, ...held] } };
      },
      async validate({ object, namespace }) {
        const held = ((object ?? {}) as Pod).spec?.tolerations ?? [];
        if (held.length === 0) return allow;
        const allowed = await listed(namespace, whitelist, config.whitelist as readonly Toleration[]);
        return allowed.length === 0 || held.every((each) => allowed.some((other) => covers(other, each)))
          ? allow
          : deny('pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist');
      },
    };
  },
});
