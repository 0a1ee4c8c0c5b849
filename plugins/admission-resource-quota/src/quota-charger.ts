import { resourceQuotas } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ResourceQuota } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Client } from '@oarlock/spi/client';
import { chargedQuota, isDenial, quotaDelta } from './quota-usage.ts';

/** The maximum number of attempts to update a ResourceQuota after conflicts. */
const attempts = 32;
const nameOf = ({ metadata }: ResourceQuota) => metadata?.name ?? '';

/** Adds the usage of requests to the ResourceQuotas of a namespace. Only one request per namespace is charged at a time. */
export class QuotaCharger {
  readonly #client: Client;
  readonly #clock: Pick<Clock, 'now'>;
  /** The last pending charge of each namespace, which the next charge waits for. */
  readonly #charges = new Map<string, Promise<unknown>>();

  constructor(client: Client, clock: Pick<Clock, 'now'>) {
    this.#client = client;
    this.#clock = clock;
  }

  /** Adds the usage of the request to all ResourceQuotas. Returns the denial of the first ResourceQuota that would be exceeded. */
  charge(quotas: readonly ResourceQuota[], request: AdmissionRequest): Promise<AdmissionDecision> {
    const { namespace } = request;
    // a global order by name prevents deadlocks of requests that update several quotas
    const sorted = [...quotas].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
    // serialize the requests of a namespace: waiting is cheaper than update conflicts
    const decision = (this.#charges.get(namespace) ?? Promise.resolve()).then(() => this.#chargeAll(sorted, request));
    const end = decision.catch(() => undefined); // the caller receives the rejection
    this.#charges.set(namespace, end);
    void end.then(() => {
      if (this.#charges.get(namespace) === end) this.#charges.delete(namespace);
    });
    return decision;
  }

  async #chargeAll(quotas: readonly ResourceQuota[], request: AdmissionRequest): Promise<AdmissionDecision> {
    for (const quota of quotas) {
      const verdict = await this.#chargeOne(quota, request);
      if (!verdict.allowed) return verdict;
    }
    return allow;
  }

  async #chargeOne(cached: ResourceQuota, request: AdmissionRequest): Promise<AdmissionDecision> {
    const name = nameOf(cached);
    let quota = cached;
    // the cache may be stale: deny only based on the stored quota
    for (let attempt = 0, fresh = false; attempt < attempts; attempt++) {
      const due = quotaDelta(quota, request, this.#clock.now());
      if (due === undefined) return allow;
      const next = isDenial(due) ? due : chargedQuota(due);
      if (isDenial(next)) {
        if (fresh) return next;
      } else if (request.dryRun) {
        return allow;
      } else if (await this.#update(next)) return allow;
      try {
        quota = await this.#client.get(resourceQuotas, { namespace: request.namespace, name });
        fresh = true;
      } catch (error) {
        if (isStatus(error, 'NotFound')) return allow;
        throw error;
      }
    }
    return deny(`the quota ${name} is charged by too many at once`, { reason: 'Conflict' });
  }

  /** Updates the status of a ResourceQuota. Returns false after a conflict, and true if it was updated or no longer exists. */
  async #update(quota: ResourceQuota): Promise<boolean> {
    try {
      await this.#client.update(resourceQuotas, quota, { subresource: 'status' });
      return true;
    } catch (error) {
      if (isStatus(error, 'NotFound')) return true;
      if (isStatus(error, 'Conflict')) return false;
      throw error;
    }
  }
}
