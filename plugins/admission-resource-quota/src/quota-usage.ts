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
interface QuotaDelta {
  readonly quota: ResourceQuota;
  readonly delta: Resources;
}

/** A ResourceQuota, and the same with the added usage of a request. */
export interface EvaluatedQuota {
  readonly quota: ResourceQuota;
  readonly charged: ResourceQuota;
}

/**
 * Returns the ResourceQuotas whose usage a request changes, or the denial of the first one that rejects the request. As upstream, an unspecified
 * resource or an unknown usage in any ResourceQuota is reported before an exceeded one. `now` is in milliseconds since the epoch.
 */
export function evaluateQuotas(
  quotas: readonly ResourceQuota[],
  request: AdmissionRequest,
  now: number,
): readonly EvaluatedQuota[] | AdmissionDecision {
  const deltas: QuotaDelta[] = [];
  for (const quota of quotas) {
    const due = quotaDelta(quota, request, now);
    if (due === undefined) continue;
    if ('allowed' in due) return due;
    deltas.push(due);
  }
  const evaluated: EvaluatedQuota[] = [];
  for (const due of deltas) {
    const charged = chargedQuota(due);
    if ('allowed' in charged) return charged;
    evaluated.push({ quota: due.quota, charged });
  }
  return evaluated;
}

/** Returns the usage that a request adds to a ResourceQuota; undefined if the request does not change its usage. */
function quotaDelta(
  quota: ResourceQuota,
  { resource, object, old }: AdmissionRequest,
  now: number,
): QuotaDelta | AdmissionDecision | undefined {
  const what = groupResource(resource);
  if (object === undefined || !quotaMatches(quota, what, object)) return undefined;
  const name = quota.metadata?.name ?? '';
  if (what === 'pods' && old === undefined) {
    const fault =
      scopeSelectorsOf(quota.spec).some(({ scopeName }) => scopeName === 'BestEffort') && isBestEffort(object)
        ? undefined
        : missingRequiredResources(quota, object);
    if (fault !== undefined) return deny(`failed quota: ${name}: ${fault}`);
  }
  const usage = (each: KubeObject) => maskResources(quota, quotaUsage(what, each, now));
  const delta = positiveDelta(usage(object), old !== undefined && quotaMatches(quota, what, old) ? usage(old) : nothing);
  if (delta.size === 0) return undefined;
  const { hard = {}, used = {} } = quota.status ?? {};
  const unknown = [...delta.keys()].filter((each) => hard[each] === undefined || used[each] === undefined).sort();
  return unknown.length > 0 ? deny(`status unknown for quota: ${name}, resources: ${unknown.join(',')}`) : { quota, delta };
}

/** Returns the ResourceQuota with the added usage, or the denial if the usage would exceed its hard limits. */
function chargedQuota({ quota, delta }: QuotaDelta): ResourceQuota | AdmissionDecision {
  const { hard = {}, used = {} } = quota.status ?? {};
  const name = quota.metadata?.name ?? '';
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
