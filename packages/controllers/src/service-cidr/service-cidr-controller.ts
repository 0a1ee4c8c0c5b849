import { jsonEqual } from '@oarlock/api/json';
import { addressOf, familyOf } from '@oarlock/api/ip-number';
import { ipAddresses, serviceCIDRs } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { Condition } from '@oarlock/api/types/meta-v1';
import type { IPAddress, ServiceCIDR } from '@oarlock/api/types/networking-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { Informers, type Client, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { z } from 'zod';
import { typed } from '../pod-template.ts';

const finalizer = 'networking.k8s.io/service-cidr-finalizer';
/** Servers may give addresses of a range until they have heard that it goes. KEP-1880. */
const graceMs = 10_000;
const byFamily = 'addresses-of-family';

type Verdict = Pick<Condition, 'status' | 'reason' | 'message'>;
const ready: Verdict = { status: 'True', reason: '', message: 'Kubernetes Service CIDR is ready' };
const terminating: Verdict = {
  status: 'False',
  reason: 'Terminating',
  message: 'There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR',
};

interface Range {
  readonly family: string;
  readonly first: bigint;
  readonly last: bigint;
}
const rangesOf = ({ spec }: ServiceCIDR): readonly Range[] =>
  (spec?.cidrs ?? []).flatMap((cidr) => {
    const [text = '', bits] = cidr.split('/');
    const [base, family] = [addressOf(text), familyOf(text)];
    if (base === undefined || family === undefined) return [];
    const size = 1n << BigInt((family === 'IPv6' ? 128 : 32) - Number(bits));
    return [{ family, first: (base / size) * size, last: (base / size) * size + size - 1n }];
  });
const holds = (ranges: readonly Range[], family: string, value: bigint): boolean =>
  ranges.some((range) => range.family === family && value >= range.first && value <= range.last);

interface Parts {
  readonly ranges: Informer<ServiceCIDR>;
  readonly addresses: Informer<IPAddress>;
  readonly clock: Clock;
}

/** Says of each ServiceCIDR whether it is ready, and keeps it until no address needs it. Our own API server does the same by itself; for servers that leave it to a loop. */
export class ServiceCidrController implements Controller {
  readonly name = 'service-cidr';
  readonly watches;
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
    const { ranges, addresses } = parts;
    addresses.addIndex(byFamily, ({ metadata }) => [familyOf(metadata?.name ?? '') ?? '']);
    const going = () => ranges.list().flatMap(({ metadata }) => (metadata?.deletionTimestamp === undefined ? [] : [metadata.name ?? '']));
    this.watches = [
      // another range may hold what one that goes does
      watch(ranges, ({ metadata }) => [metadata?.name ?? '', ...going()]),
      watch(addresses, (address, old) => (old === undefined && addresses.get(address.metadata?.name ?? '') === undefined ? going() : [])),
    ];
  }

  async reconcile(name: string, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const range = this.#parts.ranges.get(name);
    try {
      return range && (await this.#settle(range, client));
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  async #settle(range: ServiceCIDR, client: Client): Promise<ReconcileResult | void> {
    const { clock } = this.#parts;
    const { metadata = {} } = range;
    const held = metadata.finalizers?.includes(finalizer) === true;
    if (metadata.deletionTimestamp === undefined) {
      const kept = held
        ? range
        : await client.update(serviceCIDRs, {
            ...typed(serviceCIDRs, range),
            metadata: { ...metadata, finalizers: [...(metadata.finalizers ?? []), finalizer] },
          });
      await this.#report(kept, ready, client);
      return undefined;
    }
    if (!held) return undefined;
    const left = Date.parse(metadata.deletionTimestamp) + graceMs - clock.now();
    if (this.#isNeeded(range)) {
      await this.#report(range, terminating, client);
      return undefined;
    }
    if (left > 0) {
      await this.#report(range, terminating, client);
      return { requeueAfterMs: left };
    }
    await client.update(serviceCIDRs, {
      ...typed(serviceCIDRs, range),
      metadata: { ...metadata, finalizers: (metadata.finalizers ?? []).filter((each) => each !== finalizer) },
    });
    return undefined;
  }

  /** An address is in this range and in no other that stays. */
  #isNeeded(range: ServiceCIDR): boolean {
    const own = rangesOf(range);
    const others = this.#parts.ranges
      .list()
      .filter(({ metadata }) => metadata?.name !== range.metadata?.name && metadata?.deletionTimestamp === undefined)
      .flatMap(rangesOf);
    for (const family of new Set(own.map((each) => each.family)))
      for (const { metadata } of this.#parts.addresses.byIndex(byFamily, family)) {
        const value = addressOf(metadata?.name ?? '') ?? -1n;
        if (holds(own, family, value) && !holds(others, family, value)) return true;
      }
    return false;
  }

  async #report(range: ServiceCIDR, verdict: Verdict, client: Client): Promise<void> {
    const before = range.status?.conditions?.find(({ type }) => type === 'Ready');
    const { status, reason = '', message = '' } = before ?? {};
    if (jsonEqual({ status, reason, message }, { ...verdict })) return;
    const lastTransitionTime = before?.status === verdict.status ? before.lastTransitionTime : formatTime(this.#parts.clock.now());
    const others = (range.status?.conditions ?? []).filter(({ type }) => type !== 'Ready');
    await client.update(
      serviceCIDRs,
      {
        ...typed(serviceCIDRs, range),
        status: { ...range.status, conditions: [...others, { type: 'Ready', ...verdict, lastTransitionTime }] },
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
    new ServiceCidrController({ ranges: informers.of(serviceCIDRs), addresses: informers.of(ipAddresses), clock }),
});
