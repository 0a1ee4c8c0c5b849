import { controllerOf } from '@oarlock/api/object';
import {
  countsExtendedResource,
  deviceQuotaContext,
  isExtendedResourceClaim,
  type DeviceQuotaContext,
} from '@oarlock/api/quota/device-usage';
import { groupResource } from '@oarlock/api/resource';
import { deviceClasses, pods, resourceClaims, resourceQuotas } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod, ResourceQuota } from '@oarlock/api/types/core-v1';
import type { ResourceClaim } from '@oarlock/api/types/resource-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Client } from '@oarlock/spi/client';
import type { Logger } from '@oarlock/primitives/logger';
import type { LimitedResource } from './limited-resources.ts';
import { evaluateQuotas, type EvaluatedQuota } from './quota-usage.ts';

/** The maximum number of attempts to update a ResourceQuota after conflicts. */
const attempts = 32;
const nameOf = ({ metadata }: ResourceQuota) => metadata?.name ?? '';
const byName = (a: ResourceQuota, b: ResourceQuota) => (nameOf(a) < nameOf(b) ? -1 : 1);

/** A ResourceQuota before it was charged, and as stored with the charge. */
interface Charge {
  readonly before: ResourceQuota;
  readonly stored: ResourceQuota;
}

/** A request, and the rules about resources that a ResourceQuota must cover. */
export interface ChargedRequest {
  readonly request: AdmissionRequest;
  readonly limited: readonly LimitedResource[];
}

export interface QuotaChargerOptions {
  readonly client: Client;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Pick<Logger, 'warn'>;
}

/** Adds the usage of requests to the ResourceQuotas of a namespace. Only one request per namespace is charged at a time. */
export class QuotaCharger {
  readonly #client: Client;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #log: Pick<Logger, 'warn'>;
  /** The last pending charge of each namespace, which the next charge waits for. */
  readonly #charges = new Map<string, Promise<unknown>>();

  constructor({ client, clock, log }: QuotaChargerOptions) {
    this.#client = client;
    this.#clock = clock;
    this.#log = log;
  }

  /** Adds the usage of the request to all ResourceQuotas, or to none: returns the denial of the first ResourceQuota that would be exceeded. */
  charge(quotas: readonly ResourceQuota[], charged: ChargedRequest): Promise<AdmissionDecision> {
    const { namespace } = charged.request;
    // a global order by name prevents deadlocks of requests that update several quotas
    const sorted = [...quotas].sort(byName);
    // serialize the requests of a namespace: waiting is cheaper than update conflicts
    const decision = (this.#charges.get(namespace) ?? Promise.resolve()).then(() => this.#chargeAll(sorted, charged));
    const end = decision.catch(() => undefined); // the caller receives the rejection
    this.#charges.set(namespace, end);
    void end.then(() => {
      if (this.#charges.get(namespace) === end) this.#charges.delete(namespace);
    });
    return decision;
  }

  /** Evaluates all ResourceQuotas before it charges the first one, so that a denied request is charged to none. */
  async #chargeAll(quotas: readonly ResourceQuota[], { request, limited }: ChargedRequest): Promise<AdmissionDecision> {
    const devices = await this.#deviceContext(quotas, request);
    const options = () => ({ now: this.#clock.now(), limited, devices });
    let evaluated = evaluateQuotas(quotas, request, options());
    if ('allowed' in evaluated) {
      // the cache may be stale: deny only based on the stored quotas
      const { items } = await this.#client.list(resourceQuotas, { namespace: request.namespace });
      evaluated = evaluateQuotas([...items].sort(byName), request, options());
      if ('allowed' in evaluated) return evaluated;
    }
    if (request.dryRun) return allow;
    const charges: Charge[] = [];
    let isCharged = false;
    try {
      for (const { quota, charged } of evaluated) {
        const outcome = await this.#chargeOne({ quota, charged }, request, devices);
        if (outcome === undefined) continue;
        if ('allowed' in outcome) return outcome;
        charges.push(outcome);
      }
      isCharged = true;
      return allow;
    } finally {
      if (!isCharged) await this.#revert(charges);
    }
  }

  /** Returns what the usage of a ResourceClaim depends on if a ResourceQuota limits extended resources, otherwise undefined. */
  async #deviceContext(quotas: readonly ResourceQuota[], { resource, object }: AdmissionRequest): Promise<DeviceQuotaContext | undefined> {
    if (groupResource(resource) !== groupResource(resourceClaims) || object === undefined) return undefined;
    if (!quotas.some(({ status }) => Object.keys(status?.hard ?? {}).some(countsExtendedResource))) return undefined;
    const { items } = await this.#client.list(deviceClasses, {});
    const pod = isExtendedResourceClaim(object as ResourceClaim) ? await this.#ownerOf(object as ResourceClaim) : undefined;
    return deviceQuotaContext(items, (_namespace, name) => (pod?.metadata?.name === name ? pod : undefined));
  }

  async #ownerOf(claim: ResourceClaim): Promise<Pod | undefined> {
    const name = controllerOf(claim)?.name;
    if (name === undefined) return undefined;
    try {
      return await this.#client.get(pods, { namespace: claim.metadata?.namespace ?? '', name });
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  /** Charges one ResourceQuota. Returns undefined if there is nothing to charge anymore, and the denial if a concurrent charge exceeds the quota. */
  async #chargeOne(
    first: EvaluatedQuota,
    request: AdmissionRequest,
    devices: DeviceQuotaContext | undefined,
  ): Promise<Charge | AdmissionDecision | undefined> {
    const name = nameOf(first.quota);
    let next: EvaluatedQuota | undefined = first;
    for (let attempt = 0; attempt < attempts && next !== undefined; attempt++) {
      const stored = await this.#update(next.charged);
      if (stored !== 'conflict') return stored && { before: next.quota, stored };
      const fresh = await this.#get(request.namespace, name);
      const evaluated = fresh === undefined ? [] : evaluateQuotas([fresh], request, { now: this.#clock.now(), limited: [], devices });
      if ('allowed' in evaluated) return evaluated;
      next = evaluated[0];
    }
    return next && deny(`the quota ${name} is charged by too many at once`, { reason: 'Conflict' });
  }

  /**
   * Reverts charges of a request that is denied after all. A ResourceQuota that has changed since keeps its charge until the quota controller
   * recalculates its usage: the change may be that recalculation, which a second subtraction would make wrong.
   */
  async #revert(charges: readonly Charge[]): Promise<void> {
    for (const { before, stored } of charges) {
      try {
        await this.#update({ ...stored, ...(before.status && { status: before.status }) });
      } catch (error) {
        this.#log.warn({ err: error, quota: nameOf(before) }, 'the charge of a denied request remains until the quota is recalculated');
      }
    }
  }

  async #get(namespace: string, name: string): Promise<ResourceQuota | undefined> {
    try {
      return await this.#client.get(resourceQuotas, { namespace, name });
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  /** Updates the status of a ResourceQuota. Returns the stored ResourceQuota, undefined if it no longer exists, or 'conflict'. */
  async #update(quota: ResourceQuota): Promise<ResourceQuota | 'conflict' | undefined> {
    try {
      return await this.#client.update(resourceQuotas, quota, { subresource: 'status' });
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      if (isStatus(error, 'Conflict')) return 'conflict';
      throw error;
    }
  }
}
