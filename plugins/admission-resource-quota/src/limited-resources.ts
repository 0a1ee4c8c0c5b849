import type { KubeObject } from '@oarlock/api/object';
import type { Amounts } from '@oarlock/api/pod-resources';
import { isInScope, limited, quotaCovers, scopesOf, type QuotaScope } from '@oarlock/api/quota';
import type { ResourceQuota } from '@oarlock/api/types/core-v1';
import { z } from 'zod';

const scope = z.strictObject({
  scopeName: z.enum([
    'Terminating',
    'NotTerminating',
    'BestEffort',
    'NotBestEffort',
    'PriorityClass',
    'CrossNamespacePodAffinity',
    'VolumeAttributesClass',
  ]),
  operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']).default('Exists'),
  values: z.array(z.string()).default([]),
});

/** As `limitedResources` of a ResourceQuotaConfiguration (`apiserver.config.k8s.io/v1`). */
export const limitedResources = z
  .array(
    z.strictObject({
      apiGroup: z.string().default(''),
      resource: z.string().min(1),
      /** What an object uses under names that have one of these in them is only to be had where a quota limits it. */
      matchContains: z.array(z.string().min(1)).default([]),
      /** Objects in these scopes are only to be had where a quota with the same scope covers them. */
      matchScopes: z.array(scope).default([]),
    }),
  )
  .default([]);
export type LimitedResource = z.output<typeof limitedResources>[number];

export const nameOf = ({ apiGroup, resource }: LimitedResource): string => (apiGroup === '' ? resource : `${resource}.${apiGroup}`);

/** Why an object may not be had although no quota says so: none limits what has to be limited. */
export function uncovered(
  rules: readonly LimitedResource[],
  resource: string,
  object: KubeObject,
  used: Amounts,
  quotas: readonly ResourceQuota[],
): string | undefined {
  const covering = quotas.filter((quota) => quotaCovers(quota, resource, object));
  const scopes = rules.flatMap(({ matchScopes }) => matchScopes.filter((each) => isInScope(resource, object, each)));
  const open = scopes.filter((each) => !covering.some(({ spec }) => scopesOf(spec).some((held) => isSame(held, each))));
  if (open.length > 0) return `insufficient quota to match these scopes: [${open.map(shown).join(' ')}]`;
  const held = new Set(covering.flatMap((quota) => [...limited(quota, used).keys()]));
  const lacking = [...used.keys()].filter(
    (name) => !held.has(name) && rules.some(({ matchContains }) => matchContains.some((part) => name.includes(part))),
  );
  return lacking.length > 0 ? `insufficient quota to consume: ${lacking.sort().join(',')}` : undefined;
}

/** A quota for some values of a scope is one for that scope. */
const isSame = (held: QuotaScope, wanted: QuotaScope): boolean => held.scopeName === wanted.scopeName;
const shown = ({ scopeName, operator, values = [] }: QuotaScope): string => `{${scopeName} ${operator} [${values.join(' ')}]}`;
