import type { KubeObject } from '@oarlock/api/object';
import type { Amounts } from '@oarlock/api/pod-resources';
import { addQuantity, compareQuantity, zero } from '@oarlock/api/quantity';
import { increase, isBestEffort, limited, measured, quotaCovers, quotaUsage, scopesOf, sumOf } from '@oarlock/api/quota';
import { groupResource } from '@oarlock/api/resource';
import { resourceQuotas } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod, ResourceQuota } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { limitedResources, nameOf, uncovered, type LimitedResource } from './limited-resources.ts';

/** How often a charge is tried against writers elsewhere. */
const attempts = 32;
const nothing: Amounts = new Map();
const required = /^(requests\.|limits\.)?(cpu|memory)$/;

const printed = (amounts: Iterable<readonly [string, unknown]>): string =>
  [...amounts]
    .map(([name, amount]) => `${name}=${String(amount)}`)
    .sort()
    .join(',');

/** What a quota limits and a pod does not state, container by container: `must specify limits.cpu for: a,b`. */
function unstated({ spec: { hard = {} } = {} }: ResourceQuota, { spec }: Pod): string | undefined {
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

interface Charge {
  readonly quota: ResourceQuota;
  readonly delta: Amounts;
}

/** Keeps namespaces within their ResourceQuotas. */
export default Admission.plugin({
  id: 'admission-resource-quota',
  config: z.strictObject({ limitedResources }),
  needs: { client: Client, informers: Informers },
  create({ client, informers, config }, { clock }) {
    const rules = new Map<string, LimitedResource[]>();
    for (const rule of config.limitedResources) rules.set(nameOf(rule), [...(rules.get(nameOf(rule)) ?? []), rule]);
    const known = informers.of(resourceQuotas);
    const turns = new Map<string, Promise<unknown>>();

    /** What a request adds to a quota; undefined when it is none of the quota's business. */
    const chargeOf = (quota: ResourceQuota, { resource, object, old }: AdmissionRequest): Charge | Verdict | undefined => {
      const what = groupResource(resource);
      if (object === undefined || !quotaCovers(quota, what, object)) return undefined;
      if (what === 'pods' && old === undefined) {
        const fault =
          scopesOf(quota.spec).some(({ scopeName }) => scopeName === 'BestEffort') && isBestEffort(object)
            ? undefined
            : unstated(quota, object);
        if (fault !== undefined) return deny(`failed quota: ${quota.metadata?.name ?? ''}: ${fault}`);
      }
      const usage = (each: KubeObject) => limited(quota, quotaUsage(what, each, clock.now()));
      const delta = increase(usage(object), old !== undefined && quotaCovers(quota, what, old) ? usage(old) : nothing);
      return delta.size === 0 ? undefined : { quota, delta };
    };

    /** The quota as it is to be after a charge, or why there is none. */
    const charged = ({ quota, delta }: Charge): ResourceQuota | Verdict => {
      const { hard = {}, used = {} } = quota.status ?? {};
      const name = quota.metadata?.name ?? '';
      const unknown = [...delta.keys()].filter((each) => hard[each] === undefined || used[each] === undefined).sort();
      if (unknown.length > 0) return deny(`status unknown for quota: ${name}, resources: ${unknown.join(',')}`);
      const held = new Map([...delta.keys()].map((each) => [each, addQuantity(used[each] ?? 0, zero)]));
      const next = sumOf(held, delta);
      const exceeded = [...next].filter(([each, amount]) => compareQuantity(amount, hard[each] ?? 0) > 0).map(([each]) => each);
      if (exceeded.length > 0) {
        const of = (amounts: (each: string) => unknown) => printed(exceeded.map((each) => [each, amounts(each)]));
        return deny(
          `exceeded quota: ${name}, requested: ${of((each) => delta.get(each))}, used: ${of((each) => held.get(each))}, limited: ${of((each) => addQuantity(hard[each] ?? 0, zero))}`,
        );
      }
      return {
        ...quota,
        status: { ...quota.status, used: { ...used, ...Object.fromEntries([...next].map(([each, amount]) => [each, amount.toString()])) } },
      };
    };
    const isRefusal = (value: ResourceQuota | Charge | Verdict): value is Verdict => 'allowed' in value;

    const charge = async (name: string, first: ResourceQuota, request: AdmissionRequest): Promise<Verdict> => {
      let quota = first;
      // what is cached may be behind: a refusal counts only when it was made on what is stored
      for (let attempt = 0, fresh = false; attempt < attempts; attempt++) {
        const due = chargeOf(quota, request);
        if (due === undefined) return allow;
        const next = isRefusal(due) ? due : charged(due);
        if (isRefusal(next)) {
          if (fresh) return next;
        } else if (request.dryRun) {
          return allow;
        } else {
          try {
            await client.update(resourceQuotas, next, { subresource: 'status' });
            return allow;
          } catch (error) {
            if (isStatus(error, 'NotFound')) return allow; // a quota that is gone limits nothing
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

    const chargeAll = async (quotas: readonly ResourceQuota[], request: AdmissionRequest): Promise<Verdict> => {
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
      validate(request): Verdict | Promise<Verdict> {
        const { namespace, resource, subresource, operation } = request;
        if (namespace === '' || (operation === 'CREATE' && subresource !== '')) return allow;
        if (operation === 'UPDATE' && !measured.has(groupResource(resource))) return allow;
        const quotas = known.list(namespace);
        const strict = rules.get(groupResource(resource));
        if (strict !== undefined && operation === 'CREATE' && request.object !== undefined) {
          const what = groupResource(resource);
          const because = uncovered(strict, what, request.object, quotaUsage(what, request.object, clock.now()), quotas);
          if (because !== undefined) return deny(because);
        }
        if (quotas.length === 0) return allow;
        // by name, as everybody does: two requests never wait for each other's second quota
        const sorted = [...quotas].sort((a, b) => ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1));
        // one after the other within a namespace: who waits a turn does not have to try again
        const turn = (turns.get(namespace) ?? Promise.resolve()).then(() => chargeAll(sorted, request));
        const settled = turn.catch(() => undefined);
        turns.set(namespace, settled);
        void settled.then(() => {
          if (turns.get(namespace) === settled) turns.delete(namespace);
        });
        return turn;
      },
    };
  },
});
