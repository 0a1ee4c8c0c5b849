import type { KubeObject } from '@oarlock/api/object';
import type { Resources } from '@oarlock/api/component-helpers/pod-resources';
import { calculatedResources, isInScope, scopeSelectorsOf, type ScopeSelectorRequirement } from '@oarlock/api/quota/quota';
import type { ResourceQuota } from '@oarlock/api/types/core-v1';
import { zeroQuantity } from '@oarlock/api/values/quantity';
import { deny, type AdmissionDecision } from '@oarlock/spi/admission';
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

/** The object, its usage, the ResourceQuotas of the namespace, and those that match the object. */
export interface QuotaCoverage {
  readonly resource: string;
  readonly object: KubeObject;
  readonly used: Resources;
  readonly quotas: readonly ResourceQuota[];
  readonly matching: readonly ResourceQuota[];
}

/** Returns the denial for a limited resource that no ResourceQuota covers; undefined if all are covered. */
export function uncoveredLimitedResource(
  rules: readonly LimitedResource[],
  { resource, object, used, quotas, matching }: QuotaCoverage,
): AdmissionDecision | undefined {
  const covered = new Set(matching.flatMap((quota) => calculatedResources(quota, resource)));
  const uncovered = [...used]
    .filter(([name, amount]) => amount.compare(zeroQuantity) > 0 && !covered.has(name))
    .map(([name]) => name)
    .filter((name) => rules.some(({ matchContains }) => matchContains.some((part) => name.includes(part))));
  if (uncovered.length > 0) return deny(`insufficient quota to consume: ${uncovered.sort().join(',')}`);
  const scopes = rules.flatMap(({ matchScopes }) => matchScopes.filter((each) => isInScope(resource, object, each)));
  // as upstream, a scope of the object is covered also by a ResourceQuota whose other scopes the object is not in
  const held = quotas.flatMap(({ spec }) => scopeSelectorsOf(spec).filter((each) => isInScope(resource, object, each)));
  const open = scopes.filter((each) => !held.some((one) => isSame(one, each)));
  if (open.length === 0) return undefined;
  const message = `insufficient quota to match these scopes: [${open.map(scopeText).join(' ')}]`;
  // upstream does not wrap this error as Forbidden
  return deny(message, { status: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, code: 500 } });
}

/** Returns true if the scope names are equal. A ResourceQuota for some values of a scope covers the whole scope. */
const isSame = (held: ScopeSelectorRequirement, required: ScopeSelectorRequirement): boolean => held.scopeName === required.scopeName;
const scopeText = ({ scopeName, operator, values = [] }: ScopeSelectorRequirement): string =>
  `{${scopeName} ${operator} [${values.join(' ')}]}`;
