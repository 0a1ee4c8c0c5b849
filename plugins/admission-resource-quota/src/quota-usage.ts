import type { KubeObject } from '@oarlock/api/object';
import type { Resources } from '@oarlock/api/component-helpers/pod-resources';
import { addQuantity, compareQuantity, zeroQuantity } from '@oarlock/api/values/quantity';
import {
  positiveDelta,
  isBestEffort,
  maskResources,
  quotaMatches,
  quotaUsage,
  scopeSelectorsOf,
  addResources,
} from '@oarlock/api/quota/quota';
import { groupResource } from '@oarlock/api/resource';
import type { Pod, ResourceQuota } from '@oarlock/api/types/core-v1';
import { deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';

const nothing: Resources = new Map();
const required = /^(requests\.|limits\.)?(cpu|memory)$/;

const printed = (amounts: Iterable<readonly [string, unknown]>): string =>
  [...amounts]
    .map(([name, amount]) => `${name}=${String(amount)}`)
    .sort()
    .join(',');

/** Returns the limited resources that a pod does not specify, with the containers: `must specify limits.cpu for: a,b`. */
function missingRequiredResources({ spec: { hard = {} } = {} }: ResourceQuota, { spec }: Pod): string | undefined {
  const missing: string[] = [];
  for (const name of Object.keys(hard)
    .filter((each) => required.test(each))
    .sort()) {
    const [, prefix, amount = ''] = required.exec(name) ?? [];
    const kind = prefix === 'limits.' ? 'limits' : 'requests';
    if (spec?.resources?.[kind]?.[amount] !== undefined) continue;
    const containers = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].filter(
      ({ resources }) => resources?.[kind]?.[amount] === undefined,
    );
    if (containers.length > 0) missing.push(`${name} for: ${[...new Set(containers.map((container) => container.name))].sort().join(',')}`);
  }
  return missing.length === 0 ? undefined : `must specify ${missing.join('; ')}`;
}

/** The usage that a request adds to a ResourceQuota. */
export interface QuotaDelta {
  readonly quota: ResourceQuota;
  readonly delta: Resources;
}

/**
 * Returns the usage that a request adds to a ResourceQuota; undefined if the ResourceQuota does not match the object. `now` is in milliseconds
 * since the epoch.
 */
export function quotaDelta(
  quota: ResourceQuota,
  { resource, object, old }: AdmissionRequest,
  now: number,
): QuotaDelta | AdmissionDecision | undefined {
  const what = groupResource(resource);
  if (object === undefined || !quotaMatches(quota, what, object)) return undefined;
  if (what === 'pods' && old === undefined) {
    const fault =
      scopeSelectorsOf(quota.spec).some(({ scopeName }) => scopeName === 'BestEffort') && isBestEffort(object)
        ? undefined
        : missingRequiredResources(quota, object);
    if (fault !== undefined) return deny(`failed quota: ${quota.metadata?.name ?? ''}: ${fault}`);
  }
  const usage = (each: KubeObject) => maskResources(quota, quotaUsage(what, each, now));
  const delta = positiveDelta(usage(object), old !== undefined && quotaMatches(quota, what, old) ? usage(old) : nothing);
  return delta.size === 0 ? undefined : { quota, delta };
}

/** Returns the ResourceQuota with the added usage, or the denial if the usage would exceed its hard limits. */
export function chargedQuota({ quota, delta }: QuotaDelta): ResourceQuota | AdmissionDecision {
  const { hard = {}, used = {} } = quota.status ?? {};
  const name = quota.metadata?.name ?? '';
  const unknown = [...delta.keys()].filter((each) => hard[each] === undefined || used[each] === undefined).sort();
  if (unknown.length > 0) return deny(`status unknown for quota: ${name}, resources: ${unknown.join(',')}`);
  const held = new Map([...delta.keys()].map((each) => [each, addQuantity(used[each] ?? 0, zeroQuantity)]));
  const next = addResources(held, delta);
  const exceeded = [...next].filter(([each, amount]) => compareQuantity(amount, hard[each] ?? 0) > 0).map(([each]) => each);
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

export const isDenial = (value: ResourceQuota | QuotaDelta | AdmissionDecision): value is AdmissionDecision => 'allowed' in value;
