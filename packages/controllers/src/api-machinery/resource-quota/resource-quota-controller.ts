import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { addQuantity, zeroQuantity, type ParsedQuantity } from '@oarlock/api/values/quantity';
import { countsExtendedResource, deviceQuotaContext, type DeviceQuotaContext } from '@oarlock/api/quota/device-usage';
import { maskResources, quotaMatches, resourcesOfQuotaName, quotaUsage, addResources } from '@oarlock/api/quota/quota';
import { groupResource, type Resource } from '@oarlock/api/resource';
import {
  configMaps,
  deployments,
  deviceClasses,
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
import type { Clock } from '@oarlock/primitives/clock';
import { Client, Informers, type Informer } from '@oarlock/spi/client';
import {
  Controllers,
  watch,
  type Controller,
  type ControllerWatch,
  type ReconcileContext,
  type ReconcileResult,
} from '@oarlock/spi/controller';
import { z } from 'zod';
import { DiscoveredKinds } from '../../discovery/discovered-kinds.ts';
import { QuotaMonitors } from './quota-monitors.ts';

/** Resources that are monitored even if no ResourceQuota constrains them. */
const monitoredKinds: readonly Resource[] = [
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
const alwaysMonitored: ReadonlySet<string> = new Set([...monitoredKinds, resourceQuotas].map(groupResource));
const pageSize = 1000;

type QuantityMap = Readonly<Record<string, string | number>>;

const keyOf = ({ metadata }: ResourceQuota): string => `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`;
const formatUsage = (usage: Iterable<readonly [string, ParsedQuantity]>) =>
  [...usage].map(([name, quantity]) => [name, quantity.toString()]);

/** Returns true if both maps have equal quantities, even in different formats such as `1` and `1000m`. */
function sameQuantities(a: QuantityMap = {}, b: QuantityMap = {}): boolean {
  const canonical = (quantities: QuantityMap) =>
    Object.entries(quantities)
      .map(([name, quantity]) => [name, addQuantity(quantity, 0).toString()])
      .sort();
  return jsonEqual(canonical(a), canonical(b));
}

interface ResourceQuotaControllerOptions {
  readonly informers: Informers;
  readonly kinds: DiscoveredKinds;
  readonly clock: Clock;
  /** Interval in milliseconds between recalculations of a ResourceQuota. */
  readonly resyncMs: number;
  /** Interval in milliseconds between recalculations of a ResourceQuota that constrains resources without a watch. */
  readonly unmonitoredResyncMs: number;
}

/** Recalculates the usage of ResourceQuotas and writes it to their status. */
export class ResourceQuotaController implements Controller {
  readonly name = 'resourcequota';
  readonly watches: readonly ControllerWatch[];
  readonly #options: ResourceQuotaControllerOptions;
  readonly #quotas: Informer<ResourceQuota>;
  readonly #monitors: QuotaMonitors;

  constructor(options: ResourceQuotaControllerOptions) {
    const { informers, kinds } = options;
    this.#options = options;
    const quotas = informers.forResource(resourceQuotas);
    this.#quotas = quotas;
    const affectedQuotas = (resource: string, object: KubeObject, old: KubeObject | undefined) =>
      this.#affectedQuotas(resource, object, old);
    this.#monitors = new QuotaMonitors({ informers, quotas, kinds, alwaysMonitored, affectedQuotas });
    this.watches = [
      // ignores status updates by admission
      watch(quotas, (quota, old) => (old !== undefined && old !== quota && jsonEqual(quota.spec, old.spec) ? [] : [keyOf(quota)])),
      ...monitoredKinds.map((resource) =>
        watch(informers.forResource(resource), (object, old) => affectedQuotas(groupResource(resource), object, old)),
      ),
      ...kinds.watches(),
    ];
  }

  addDynamicWatches(add: (watch: ControllerWatch) => () => void): () => void {
    return this.#monitors.start(add);
  }

  async reconcile(key: string, { client }: ReconcileContext): Promise<ReconcileResult | undefined> {
    const [namespace = '', name = ''] = key.split('/');
    await this.#options.kinds.whenRead();
    // reads the live quota: writing to a stale one would undo charges of admission. The RBAC role permits list, not get.
    const { items } = await client.list(resourceQuotas, { namespace, fieldSelector: `metadata.name=${name}` });
    const [quota] = items;
    if (quota === undefined) return undefined;
    const hard = quota.spec?.hard ?? {};
    const used = Object.fromEntries(formatUsage(await this.#calculateUsage(client, quota, namespace)));
    const before = quota.status ?? {};
    if (!sameQuantities(before.hard, hard) || !sameQuantities(before.used, used))
      await client.update(resourceQuotas, { ...quota, status: { hard, used } }, { subresource: 'status' });
    const { resyncMs, unmonitoredResyncMs } = this.#options;
    return { requeueAfterMs: this.#hasUnmonitored(Object.keys(hard)) ? unmonitoredResyncMs : resyncMs };
  }

  /**
   * Returns the keys of the ResourceQuotas in the object's namespace if the object was added or deleted, or if its usage changed; otherwise of
   * those whose scopes the object entered or left.
   */
  #affectedQuotas(resource: string, object: KubeObject, old: KubeObject | undefined): readonly string[] {
    const quotas = this.#quotas.list(object.metadata?.namespace ?? '');
    if (quotas.length === 0) return [];
    if (old === undefined || this.#usageChanged(resource, object, old)) return quotas.map(keyOf);
    return quotas.filter((quota) => quotaMatches(quota, resource, object) !== quotaMatches(quota, resource, old)).map(keyOf);
  }

  #usageChanged(resource: string, object: KubeObject, old: KubeObject): boolean {
    const now = this.#options.clock.now();
    return !jsonEqual(formatUsage(quotaUsage(resource, object, { now })), formatUsage(quotaUsage(resource, old, { now })));
  }

  /** Returns the usage of each resource name in a ResourceQuota. Resources that cannot be listed keep the usage in the status. */
  async #calculateUsage(client: Client, quota: ResourceQuota, namespace: string): Promise<Map<string, ParsedQuantity>> {
    const hard = Object.keys(quota.spec?.hard ?? {});
    const before = quota.status?.used ?? {};
    let used = new Map<string, ParsedQuantity>(
      hard.map((name) => [
        name,
        resourcesOfQuotaName(name).some((subject) => this.#monitors.resource(subject) !== undefined)
          ? zeroQuantity
          : addQuantity(before[name] ?? 0, 0),
      ]),
    );
    const now = this.#options.clock.now();
    const devices = hard.some(countsExtendedResource) ? await this.#deviceContext(client) : undefined;
    for (const subject of new Set(hard.flatMap(resourcesOfQuotaName))) {
      const resource = this.#monitors.resource(subject);
      if (resource === undefined) continue;
      for await (const objects of listPages(client, resource, namespace))
        for (const object of objects)
          if (quotaMatches(quota, subject, object))
            used = addResources(used, maskResources(quota, quotaUsage(subject, object, { now, devices })));
    }
    return used;
  }

  async #deviceContext(client: Client): Promise<DeviceQuotaContext> {
    const { items } = await client.list(deviceClasses, {});
    const podInformer = this.#options.informers.forResource(pods);
    return deviceQuotaContext(items, (namespace, name) => podInformer.get(`${namespace}/${name}`));
  }

  #hasUnmonitored(names: readonly string[]): boolean {
    return names
      .flatMap(resourcesOfQuotaName)
      .some((subject) => this.#monitors.resource(subject) !== undefined && !this.#monitors.isMonitored(subject));
  }
}

/** Yields the objects of a namespace in pages. */
async function* listPages(client: Client, resource: Resource, namespace: string): AsyncGenerator<readonly KubeObject[]> {
  let next: string | undefined;
  do {
    const page: { readonly items: readonly KubeObject[]; readonly metadata?: { readonly continue?: string } } = await client.list(
      resource,
      {
        namespace,
        limit: pageSize,
        ...(next !== undefined && { continue: next }),
      },
    );
    yield page.items;
    next = page.metadata?.continue === '' ? undefined : page.metadata?.continue;
  } while (next !== undefined);
}

export default Controllers.plugin({
  id: 'controller-resource-quota',
  declares: { loop: 'resourcequota' },
  config: z.strictObject({
    /** Seconds between recalculations of a ResourceQuota. */
    resyncSeconds: z.number().positive().default(300),
    /** Seconds between recalculations of a ResourceQuota that constrains a resource without a watch. */
    unfollowedSeconds: z.number().positive().default(10),
  }),
  needs: { informers: Informers, client: Client },
  create: ({ informers, config, client }, { clock, log }) =>
    new ResourceQuotaController({
      informers,
      kinds: DiscoveredKinds.shared({ informers, client, clock, log, random: Math.random }),
      clock,
      resyncMs: config.resyncSeconds * 1000,
      unmonitoredResyncMs: config.unfollowedSeconds * 1000,
    }),
});
