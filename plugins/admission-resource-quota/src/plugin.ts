import type { KubeObject } from '@oarlock/api/object';
import type { Resources } from '@oarlock/api/component-helpers/pod-resources';
import { addQuantity, compareQuantity, zeroQuantity } from '@oarlock/api/values/quantity';
import {
  positiveDelta,
  isBestEffort,
  maskResources,
  evaluatedResources,
  quotaMatches,
  quotaUsage,
  scopeSelectorsOf,
  addResources,
} from '@oarlock/api/quota/quota';
import { groupResource } from '@oarlock/api/resource';
import { resourceQuotas } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod, ResourceQuota } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { limitedResources, nameOf, uncoveredLimitedResource, type LimitedResource } from './limited-resources.ts';

/** Maximum attempts of a quota update with conflicts. */
const attempts = 32;
const nothing: Resources = new Map();
const required = /^(requests\.|limits\.)?(cpu|memory)$/;

const printed = (amounts: Iterable<readonly [string, unknown]>): string =>
  [...amounts]
    .map(([name, amount]) => `${name}=${String(amount)}`)
    .sort()
    .join(',');

/** Returns the limited resources that a pod does not specify, by container: `must specify limits.cpu for: a,b`. */
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

interface QuotaDelta {
  readonly quota: ResourceQuota;
  readonly delta: Resources;
}

/** Enforces the ResourceQuotas of namespaces (ResourceQuota). */
export default Admission.plugin({
  id: 'admission-resource-quota',
  config: z.strictObject({ limitedResources }),
  needs: { client: Client, informers: Informers },
  create({ client, informers, config }, { clock }) {
    const rules = new Map<string, LimitedResource[]>();
    for (const rule of config.limitedResources) rules.set(nameOf(rule), [...(rules.get(nameOf(rule)) ?? []), rule]);
    const known = informers.forResource(resourceQuotas);
    const turns = new Map<string, Promise<unknown>>();

    /** Returns the usage that a request adds to a quota; undefined if the quota does not match. */
    const chargeOf = (quota: ResourceQuota, { resource, object, old }: AdmissionRequest): QuotaDelta | AdmissionDecision | undefined => {
      const what = groupResource(resource);
      if (object === undefined || !quotaMatches(quota, what, object)) return undefined;
      if (what === 'pods' && old === undefined) {
        const fault =
          scopeSelectorsOf(quota.spec).some(({ scopeName }) => scopeName === 'BestEffort') && isBestEffort(object)
            ? undefined
            : missingRequiredResources(quota, object);
        if (fault !== undefined) return deny(`failed quota: ${quota.metadata?.name ?? ''}: ${fault}`);
      }
      const usage = (each: KubeObject) => maskResources(quota, quotaUsage(what, each, clock.now()));
      const delta = positiveDelta(usage(object), old !== undefined && quotaMatches(quota, what, old) ? usage(old) : nothing);
      return delta.size === 0 ? undefined : { quota, delta };
    };

    /** Returns the quota with the added usage, or the denial. */
    const charged = ({ quota, delta }: QuotaDelta): ResourceQuota | AdmissionDecision => {
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
    };
    const isDenial = (value: ResourceQuota | QuotaDelta | AdmissionDecision): value is AdmissionDecision => 'allowed' in value;

    const charge = async (name: string, first: ResourceQuota, request: AdmissionRequest): Promise<AdmissionDecision> => {
      let quota = first;
      // the cache may be stale: deny only based on the stored quota
      for (let attempt = 0, fresh = false; attempt < attempts; attempt++) {
        const due = chargeOf(quota, request);
        if (due === undefined) return allow;
        const next = isDenial(due) ? due : charged(due);
        if (isDenial(next)) {
          if (fresh) return next;
        } else if (request.dryRun) {
          return allow;
        } else {
          try {
            await client.update(resourceQuotas, next, { subresource: 'status' });
            return allow;
          } catch (error) {
            if (isStatus(error, 'NotFound')) return allow; // the quota has been deleted
            if (!isStatus(error, 'Conflict')) throw error;
          }
        }
        try {
          quota = await client.get(resourceQuotas, { namespace: request.namespace, name });
          fresh = true;
        } catch (error) {
          if (isStatus(error, 'NotFound')) return allow;
          throw error;
        }
      }
      return deny(`the quota ${name} is charged by too many at once`, { reason: 'Conflict' });
    };

    const chargeAll = async (quotas: readonly ResourceQuota[], request: AdmissionRequest): Promise<AdmissionDecision> => {
      for (const quota of quotas) {
        const verdict = await charge(quota.metadata?.name ?? '', quota, request);
        if (!verdict.allowed) return verdict;
      }
      return allow;
    };

    return {
      matches: [
        { resources: ['*'], operations: ['CREATE'] },
        { resources: ['services', 'persistentvolumeclaims', 'pods/resize'], operations: ['UPDATE'] },
      ],
      validate(request): AdmissionDecision | Promise<AdmissionDecision> {
        const { namespace, resource, subresource, operation } = request;
        if (namespace === '' || (operation === 'CREATE' && subresource !== '')) return allow;
        if (operation === 'UPDATE' && !evaluatedResources.has(groupResource(resource))) return allow;
        const quotas = known.list(namespace);
        const strict = rules.get(groupResource(resource));
        if (strict !== undefined && operation === 'CREATE' && request.object !== undefined) {
          const what = groupResource(resource);
          const because = uncoveredLimitedResource(strict, what, request.object, quotaUsage(what, request.object, clock.now()), quotas);
          if (because !== undefined) return deny(because);
        }
        if (quotas.length === 0) return allow;
        // a global order by name prevents deadlocks of requests that update several quotas
        const sorted = [...quotas].sort((a, b) => ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1));
        // serialize the requests of a namespace: waiting is cheaper than update conflicts
        const turn = (turns.get(namespace) ?? Promise.resolve()).then(() => chargeAll(sorted, request));
        const completed = turn.catch(() => undefined);
        turns.set(namespace, completed);
        void completed.then(() => {
          if (turns.get(namespace) === completed) turns.delete(namespace);
        });
        return turn;
      },
    };
  },
});
