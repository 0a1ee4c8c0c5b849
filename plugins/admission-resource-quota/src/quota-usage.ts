import type { KubeObject } from '@oarlock/api/object';
import { isSupportedPodLevelResource, type Resources } from '@oarlock/api/component-helpers/pod-resources';
import { addQuantity, compareQuantity, zeroQuantity } from '@oarlock/api/values/quantity';
import type { DeviceQuotaContext } from '@oarlock/api/quota/device-usage';
import {
  addResources,
  calculatedResources,
  positiveDelta,
  quotaMatches,
  quotaUsage,
  type QuotaUsageOptions,
} from '@oarlock/api/quota/quota';
import { groupResource } from '@oarlock/api/resource';
import type { Pod, ResourceQuota } from '@oarlock/api/types/core-v1';
import { deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { uncoveredLimitedResource, type LimitedResource } from './limited-resources.ts';

const nothing: Resources = new Map();
const required = /^(requests\.|limits\.)?(cpu|memory)$/;

const printed = (amounts: Iterable<readonly [string, unknown]>): string =>
  [...amounts]
    .map(([name, amount]) => `${name}=${String(amount)}`)
    .sort()
    .join(',');

/** Returns the resources in `names` that a pod does not specify, with the containers: `must specify limits.cpu for: a,b`. */
function missingRequiredResources(names: readonly string[], { spec }: Pod): string | undefined {
  const { requests = {}, limits = {} } = spec?.resources ?? {};
  // KEP-2837: a pod with resources of its own need not have those of its containers
  if ([...Object.keys(requests), ...Object.keys(limits)].some(isSupportedPodLevelResource)) return undefined;
  const missing: string[] = [];
  for (const name of names) {
    const [, prefix, amount = ''] = required.exec(name) ?? [];
    if (amount === '') continue;
    const kind = prefix === 'limits.' ? 'limits' : 'requests';
    const containers = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].filter(
      ({ resources }) => resources?.[kind]?.[amount] === undefined,
    );
    if (containers.length > 0) missing.push(`${name} for: ${[...new Set(containers.map((container) => container.name))].sort().join(',')}`);
  }
  return missing.length === 0 ? undefined : `must specify ${missing.join('; ')}`;
}

/** The usage that a request adds to a ResourceQuota. */
interface QuotaDelta {
  readonly quota: ResourceQuota;
  readonly delta: Resources;
}

/** A ResourceQuota, and the same with the added usage of a request. */
export interface EvaluatedQuota {
  readonly quota: ResourceQuota;
  readonly charged: ResourceQuota;
}

/** The time in milliseconds since the epoch, and the rules about resources that a ResourceQuota must cover. */
export interface EvaluationOptions {
  readonly now: number;
  readonly limited: readonly LimitedResource[];
  /** What the usage of a ResourceClaim depends on. */
  readonly devices?: DeviceQuotaContext | undefined;
}

/**
 * Returns the ResourceQuotas whose usage a request changes, or the denial of the first one that rejects the request. As upstream's CheckRequest,
 * a ResourceQuota applies as far as the controller has calculated it, which is `status.hard`; and an unspecified resource or an unknown usage in
 * any ResourceQuota is reported before an exceeded one.
 */
export function evaluateQuotas(
  quotas: readonly ResourceQuota[],
  request: AdmissionRequest,
  { now, limited, devices }: EvaluationOptions,
): readonly EvaluatedQuota[] | AdmissionDecision {
  const { object } = request;
  const resource = groupResource(request.resource);
  if (object === undefined) return [];
  const matching = quotas.filter((quota) => quotaMatches(quota, resource, object) && calculatedResources(quota, resource).length > 0);
  for (const quota of matching) {
    const denial = unusableQuota(quota, resource, object);
    if (denial !== undefined) return denial;
  }
  const usage = { now, devices };
  const added = addedUsage(request, undefined, usage);
  const deltas: QuotaDelta[] = matching
    .map((quota) => ({ quota, delta: addedUsage(request, quota, usage) }))
    .filter(({ delta }) => delta.size > 0);
  if (matching.length > 0 ? deltas.length === 0 : added.size === 0) return [];
  const uncovered = uncoveredLimitedResource(limited, { resource, object, used: quotaUsage(resource, object, usage), quotas, matching });
  if (uncovered !== undefined) return uncovered;
  const evaluated: EvaluatedQuota[] = [];
  for (const { quota, delta } of deltas) {
    const limitedDelta = new Map([...delta].filter(([name]) => quota.status?.hard?.[name] !== undefined));
    if (limitedDelta.size === 0) continue;
    // as upstream: the status of a claim reports what is allocated already
    const charged = chargedQuota({ quota, delta: limitedDelta }, request.subresource !== 'status');
    if ('allowed' in charged) return charged;
    evaluated.push({ quota, charged });
  }
  return evaluated;
}

/** Returns the denial if a request cannot be charged to a ResourceQuota: resources are unspecified, or their usage is not calculated. */
function unusableQuota(quota: ResourceQuota, resource: string, object: KubeObject): AdmissionDecision | undefined {
  const name = quota.metadata?.name ?? '';
  const names = calculatedResources(quota, resource);
  const fault = resource === 'pods' ? missingRequiredResources(names, object) : undefined;
  if (fault !== undefined) return deny(`failed quota: ${name}: ${fault}`);
  return names.some((each) => quota.status?.used?.[each] === undefined)
    ? deny(`status unknown for quota: ${name}, resources: ${names.join(',')}`)
    : undefined;
}

/** Returns the usage that a request adds to a ResourceQuota: that of the object, less that of the old object if the ResourceQuota has it. */
function addedUsage({ resource, object, old }: AdmissionRequest, quota: ResourceQuota | undefined, usage: QuotaUsageOptions): Resources {
  const what = groupResource(resource);
  const isCharged = old !== undefined && (quota === undefined || quotaMatches(quota, what, old));
  return positiveDelta(
    object === undefined ? nothing : quotaUsage(what, object, usage),
    isCharged ? quotaUsage(what, old, usage) : nothing,
  );
}

/** Returns the ResourceQuota with the added usage, or the denial if the usage would exceed its hard limits. */
function chargedQuota({ quota, delta }: QuotaDelta, isLimited: boolean): ResourceQuota | AdmissionDecision {
  const { hard = {}, used = {} } = quota.status ?? {};
  const name = quota.metadata?.name ?? '';
  const held = new Map([...delta.keys()].map((each) => [each, addQuantity(used[each] ?? 0, zeroQuantity)]));
  const next = addResources(held, delta);
  const exceeded = (isLimited ? [...next] : [])
    .filter(([each, amount]) => compareQuantity(amount, hard[each] ?? 0) > 0)
    .map(([each]) => each);
  if (exceeded.length > 0) {
    const of = (amounts: (each: string) => unknown) => printed(exceeded.map((each) => [each, amounts(each)]));
    return deny(
      `exceeded quota: ${name}, requested: ${of((each) => delta.get(each))}, used: ${of((each) => held.get(each))}, limited: ${of((each) => addQuantity(hard[each] ?? 0, zeroQuantity))}`,
    );
  }
  return {
    ...quota,
    status: { ...quota.status, used: { ...used, ...Object.fromEntries([...next].map(([each, amount]) => [each, amount.toString()])) } },
  };
}
