import type { KubeObject } from '@oarlock/api/object';
import type { Resources } from '@oarlock/api/component-helpers/pod-resources';
import { isInScope, maskResources, quotaMatches, scopeSelectorsOf, type ScopeSelectorRequirement } from '@oarlock/api/quota/quota';
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

/** The schema of `limitedResources` in a ResourceQuotaConfiguration (`apiserver.config.k8s.io/v1`). */
export const limitedResources = z
  .array(
    z.strictObject({
      apiGroup: z.string().default(''),
      resource: z.string().min(1),
      /** Resources whose name contains one of these substrings can be used only if a ResourceQuota covers them. */
      matchContains: z.array(z.string().min(1)).default([]),
      /** Objects in these scopes can be created only if a ResourceQuota has the same scope. */
      matchScopes: z.array(scope).default([]),
    }),
  )
  .default([]);
export type LimitedResource = z.output<typeof limitedResources>[number];

export const nameOf = ({ apiGroup, resource }: LimitedResource): string => (apiGroup === '' ? resource : `${resource}.${apiGroup}`);

/** The object, its usage, and the quotas that cover it. */
export interface QuotaCoverage {
  readonly resource: string;
  readonly object: KubeObject;
  readonly used: Resources;
  readonly quotas: readonly ResourceQuota[];
}

/** Returns the error for a limited resource that no ResourceQuota covers; undefined if all are covered. */
export function uncoveredLimitedResource(
  rules: readonly LimitedResource[],
  { resource, object, used, quotas }: QuotaCoverage,
): string | undefined {
  const covering = quotas.filter((quota) => quotaMatches(quota, resource, object));
  const scopes = rules.flatMap(({ matchScopes }) => matchScopes.filter((each) => isInScope(resource, object, each)));
  const open = scopes.filter((each) => !covering.some(({ spec }) => scopeSelectorsOf(spec).some((held) => isSame(held, each))));
  if (open.length > 0) return `insufficient quota to match these scopes: [${open.map(scopeText).join(' ')}]`;
  const held = new Set(covering.flatMap((quota) => [...maskResources(quota, used).keys()]));
  const uncovered = [...used.keys()].filter(
    (name) => !held.has(name) && rules.some(({ matchContains }) => matchContains.some((part) => name.includes(part))),
  );
  return uncovered.length > 0 ? `insufficient quota to consume: ${uncovered.sort().join(',')}` : undefined;
}

/** Returns true if the scope names are equal. A ResourceQuota for some values of a scope covers the whole scope. */
const isSame = (held: ScopeSelectorRequirement, required: ScopeSelectorRequirement): boolean => held.scopeName === required.scopeName;
const scopeText = ({ scopeName, operator, values = [] }: ScopeSelectorRequirement): string =>
  `{${scopeName} ${operator} [${values.join(' ')}]}`;
