import { jsonEqual } from '@oarlock/api/json';
import type { KubeObject } from '@oarlock/api/object';
import { addQuantity, zero, type Amount } from '@oarlock/api/quantity';
import { limited, quotaCovers, quotaSubject, quotaUsage, sumOf } from '@oarlock/api/quota';
import { groupResource, type Resource } from '@oarlock/api/resource';
import {
  configMaps,
  deployments,
  jobs,
  persistentVolumeClaims,
  pods,
  replicaSets,
  replicationControllers,
  resourceQuotas,
  secrets,
  services,
  statefulSets,
} from '@oarlock/api/resources';
import type { ResourceQuota } from '@oarlock/api/types/core-v1';
import { Client, Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { DiscoveredKinds } from '../discovered-kinds.ts';
import { CountedKinds } from './counted-kinds.ts';

/** Resources that are followed whether or not a quota counts them. */
const followed: readonly Resource[] = [
  pods,
  services,
  persistentVolumeClaims,
  configMaps,
  secrets,
  replicationControllers,
  deployments,
  replicaSets,
  statefulSets,
  jobs,
];
const heard: ReadonlySet<string> = new Set([...followed, resourceQuotas].map(groupResource));
const pageSize = 1000;

/** Counts what the quotas of a namespace limit, and says so in their status. */
export default Controllers.plugin({
  id: 'controller-resource-quota',
  declares: { loop: 'resourcequota' },
  config: z.strictObject({
    /** Seconds after which everything is counted anew; and where a quota counts what is not followed. */
    resyncSeconds: z.number().positive().default(300),
    unfollowedSeconds: z.number().positive().default(10),
  }),
  needs: { informers: Informers, client: Client },
  create({ informers, config, client: asking }, { clock, log }) {
    const quotas = informers.of(resourceQuotas);
    const keysIn = (namespace: string) => quotas.list(namespace).map(({ metadata }) => `${namespace}/${metadata?.name ?? ''}`);
    const changed = (resource: string, object: KubeObject, old: KubeObject | undefined): boolean => {
      if (old === undefined) return true;
      const now = clock.now();
      return !jsonEqual(
        [...quotaUsage(resource, object, now)].map(([name, amount]) => [name, amount.toString()]),
        [...quotaUsage(resource, old, now)].map(([name, amount]) => [name, amount.toString()]),
      );
    };

    const wakes = (kind: string, object: KubeObject, old: KubeObject | undefined): readonly string[] => {
      const keys = keysIn(object.metadata?.namespace ?? '');
      return keys.length > 0 && changed(kind, object, old) ? keys : [];
    };
    const kinds = DiscoveredKinds.of({ informers, client: asking, clock, log, random: Math.random });
    const counted = new CountedKinds({ informers, quotas, kinds, always: heard, keys: wakes });

    const usedBy = async (client: Client, quota: ResourceQuota, namespace: string): Promise<Map<string, Amount>> => {
      const hard = Object.keys(quota.spec?.hard ?? {});
      const before = quota.status?.used ?? {};
      const isKnown = (subject: string | undefined) => subject !== undefined && counted.resource(subject) !== undefined;
      // what nobody can count now stays as it was charged
      let used = new Map<string, Amount>(
        hard.map((name) => [name, isKnown(quotaSubject(name)) ? zero : addQuantity(before[name] ?? 0, 0)]),
      );
      const now = clock.now();
      for (const subject of new Set(hard.map(quotaSubject))) {
        const resource = subject === undefined ? undefined : counted.resource(subject);
        if (subject === undefined || resource === undefined) continue;
        let next: string | undefined;
        do {
          const { items, metadata } = await client.list(resource, {
            namespace,
            limit: pageSize,
            ...(next !== undefined && { continue: next }),
          });
          for (const object of items)
            if (quotaCovers(quota, subject, object)) used = sumOf(used, limited(quota, quotaUsage(subject, object, now)));
          next = metadata?.continue === '' ? undefined : metadata?.continue;
        } while (next !== undefined);
      }
      return used;
    };

    return {
      name: 'resourcequota',
      watches: [
        watch(quotas, (quota, old) =>
          // what admission charges is no news
          old !== undefined && old !== quota && jsonEqual(quota.spec, old.spec)
            ? []
            : [`${quota.metadata?.namespace ?? ''}/${quota.metadata?.name ?? ''}`],
        ),
        ...followed.map((resource) => watch(informers.of(resource), (object, old) => wakes(groupResource(resource), object, old))),
        ...kinds.watches(),
      ],
      follow: (add) => counted.follow(add),
      async reconcile(key, { client }) {
        const [namespace = '', name = ''] = key.split('/');
        await kinds.settled();
        // the newest: counting on an old one would undo what was charged since. Kubernetes' role for it lets it list, not get.
        const { items } = await client.list(resourceQuotas, { namespace, fieldSelector: `metadata.name=${name}` });
        const [quota] = items;
        if (quota === undefined) return undefined;
        const hard = quota.spec?.hard ?? {};
        const used = Object.fromEntries([...(await usedBy(client, quota, namespace))].map(([each, amount]) => [each, amount.toString()]));
        const before = quota.status ?? {};
        const same = (a: Readonly<Record<string, string | number>> = {}, b: Readonly<Record<string, string | number>> = {}) =>
          jsonEqual(
            Object.entries(a)
              .map(([each, amount]) => [each, addQuantity(amount, 0).toString()])
              .sort(),
            Object.entries(b)
              .map(([each, amount]) => [each, addQuantity(amount, 0).toString()])
              .sort(),
          );
        if (!same(before.hard, hard) || !same(before.used, used))
          await client.update(resourceQuotas, { ...quota, status: { hard, used } }, { subresource: 'status' });
        const unheard = Object.keys(hard).some((each) => {
          const subject = quotaSubject(each);
          return subject !== undefined && counted.resource(subject) !== undefined && !counted.isHeard(subject);
        });
        return { requeueAfterMs: (unheard ? config.unfollowedSeconds : config.resyncSeconds) * 1000 };
      },
    };
  },
});
