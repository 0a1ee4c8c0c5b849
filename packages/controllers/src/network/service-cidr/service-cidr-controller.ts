import { jsonEqual } from '@oarlock/api/json/json';
import { parseCIDRSloppy } from '@oarlock/api/net/cidr';
import { parseIPNumber, familyOf } from '@oarlock/api/net/ip-number';
import { ipAddresses, serviceCIDRs } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { Condition } from '@oarlock/api/types/meta-v1';
import type { IPAddress, ServiceCIDR } from '@oarlock/api/types/networking-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { Informers, type Client, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { withTypeMeta } from '../../objects/object-identity.ts';

const finalizer = 'networking.k8s.io/service-cidr-finalizer';
/** Time in milliseconds for which API servers may still allocate from a deleted ServiceCIDR, until they observe the deletion (KEP-1880). */
const deletionGraceMs = 10_000;
const byFamily = 'addresses-of-family';

type ReadyCondition = Pick<Condition, 'status' | 'reason' | 'message'>;
const ready: ReadyCondition = { status: 'True', reason: '', message: 'Kubernetes Service CIDR is ready' };
const terminating: ReadyCondition = {
  status: 'False',
  reason: 'Terminating',
  message: 'There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR',
};

interface Range {
  readonly family: string;
  readonly first: bigint;
  readonly last: bigint;
}
const rangesOf = ({ spec }: ServiceCIDR): readonly Range[] => (spec?.cidrs ?? []).flatMap((cidr) => parseCIDRSloppy(cidr) ?? []);
const rangesContain = (ranges: readonly Range[], family: string, value: bigint): boolean =>
  ranges.some((range) => range.family === family && value >= range.first && value <= range.last);

interface ServiceCidrControllerOptions {
  readonly ranges: Informer<ServiceCIDR>;
  readonly addresses: Informer<IPAddress>;
  readonly clock: Clock;
}

/**
 * Sets the Ready condition of ServiceCIDRs, and keeps a deleted ServiceCIDR as long as an IPAddress needs it. Oarlock's API server does this
 * itself; the controller is for other API servers.
 */
export class ServiceCidrController implements Controller {
  readonly name = 'service-cidr';
  readonly watches;
  readonly #options: ServiceCidrControllerOptions;

  constructor(options: ServiceCidrControllerOptions) {
    this.#options = options;
    const { ranges, addresses } = options;
    addresses.addIndexer(byFamily, ({ metadata }) => [familyOf(metadata?.name ?? '') ?? '']);
    const deletingRanges = () =>
      ranges.list().flatMap(({ metadata }) => (metadata?.deletionTimestamp === undefined ? [] : [metadata.name ?? '']));
    this.watches = [
      // a deleted range waits until another range contains its addresses
      watch(ranges, ({ metadata }) => [metadata?.name ?? '', ...deletingRanges()]),
      watch(addresses, (address, old) =>
        old === undefined && addresses.get(address.metadata?.name ?? '') === undefined ? deletingRanges() : [],
      ),
    ];
  }

  async reconcile(name: string, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const range = this.#options.ranges.get(name);
    try {
      return range && (await this.#syncServiceCIDR(range, client));
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  async #syncServiceCIDR(range: ServiceCIDR, client: Client): Promise<ReconcileResult | void> {
    const { clock } = this.#options;
    const { metadata = {} } = range;
    const hasFinalizer = metadata.finalizers?.includes(finalizer) === true;
    if (metadata.deletionTimestamp === undefined) {
      const current = hasFinalizer
        ? range
        : await client.update(serviceCIDRs, {
            ...withTypeMeta(serviceCIDRs, range),
            metadata: { ...metadata, finalizers: [...(metadata.finalizers ?? []), finalizer] },
          });
      await this.#writeCondition(current, ready, client);
      return undefined;
    }
    if (!hasFinalizer) return undefined;
    const remainingMs = Date.parse(metadata.deletionTimestamp) + deletionGraceMs - clock.now();
    if (this.#hasAddressesOnlyHere(range)) {
      await this.#writeCondition(range, terminating, client);
      return undefined;
    }
    if (remainingMs > 0) {
      await this.#writeCondition(range, terminating, client);
      return { requeueAfterMs: remainingMs };
    }
    await client.update(serviceCIDRs, {
      ...withTypeMeta(serviceCIDRs, range),
      metadata: { ...metadata, finalizers: (metadata.finalizers ?? []).filter((each) => each !== finalizer) },
    });
    return undefined;
  }

  /** Returns true if an IPAddress is in this ServiceCIDR and in no other ServiceCIDR that is not being deleted. */
  #hasAddressesOnlyHere(range: ServiceCIDR): boolean {
    const ranges = rangesOf(range);
    const others = this.#options.ranges
      .list()
      .filter(({ metadata }) => metadata?.name !== range.metadata?.name && metadata?.deletionTimestamp === undefined)
      .flatMap(rangesOf);
    for (const family of new Set(ranges.map((each) => each.family)))
      for (const { metadata } of this.#options.addresses.byIndex(byFamily, family)) {
        const value = parseIPNumber(metadata?.name ?? '') ?? -1n;
        if (rangesContain(ranges, family, value) && !rangesContain(others, family, value)) return true;
      }
    return false;
  }

  async #writeCondition(range: ServiceCIDR, condition: ReadyCondition, client: Client): Promise<void> {
    const before = range.status?.conditions?.find(({ type }) => type === 'Ready');
    const { status, reason = '', message = '' } = before ?? {};
    if (jsonEqual({ status, reason, message }, { ...condition })) return;
    const lastTransitionTime = before?.status === condition.status ? before.lastTransitionTime : formatTime(this.#options.clock.now());
    const others = (range.status?.conditions ?? []).filter(({ type }) => type !== 'Ready');
    await client.update(
      serviceCIDRs,
      {
        ...withTypeMeta(serviceCIDRs, range),
        status: { ...range.status, conditions: [...others, { type: 'Ready', ...condition, lastTransitionTime }] },
      },
      { subresource: 'status' },
    );
  }
}

export default Controllers.plugin({
  id: 'controller-service-cidr',
  declares: { loop: 'service-cidr' },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create: ({ informers }, { clock }) =>
    new ServiceCidrController({ ranges: informers.forResource(serviceCIDRs), addresses: informers.forResource(ipAddresses), clock }),
});
