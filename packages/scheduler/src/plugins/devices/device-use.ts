import { parseQuantity, type Amount, zero } from '@oarlock/api/quantity';
import type { AllocationResult, Device, ResourceClaim } from '@oarlock/api/types/resource-v1';
import { deviceId, type Offer, type Pool } from './device-pools.ts';
import { consumedBy, DeviceShares } from './shared-capacity.ts';

/** Which devices are given away, by claims that have them and by those that are getting them. */
export class DeviceUse {
  readonly #holders = new Map<string, number>();
  /** Of devices that several may have. */
  readonly shares = new DeviceShares();

  isUsed(id: string): boolean {
    return this.#holders.has(id);
  }

  changed(before: ResourceClaim | undefined, now: ResourceClaim | undefined): void {
    this.give(before?.status?.allocation, -1);
    this.give(now?.status?.allocation, 1);
  }

  /** Administrators' access does not take a device from others. */
  give(allocation: AllocationResult | undefined, by: 1 | -1): void {
    for (const result of allocation?.devices?.results ?? []) {
      const { driver, pool, device, adminAccess, shareID = '' } = result;
      if (adminAccess === true) continue;
      const id = deviceId(driver, pool, device);
      if (shareID !== '') {
        this.shares.give(id, consumedBy(result), by);
        continue;
      }
      const left = (this.#holders.get(id) ?? 0) + by;
      if (left <= 0) this.#holders.delete(id);
      else this.#holders.set(id, left);
    }
  }
}

/** What is left of the counters that the devices of a pool share (KEP-4815). */
export class CounterUse {
  readonly #left = new Map<string, Amount>();

  constructor(pools: readonly Pool[], isUsed: (id: string) => boolean) {
    for (const { offers, consumers, driver, name: pool } of pools) {
      for (const [set, own] of offers[0]?.counters ?? [])
        for (const [name, { value }] of Object.entries(own)) this.#left.set(`${driver}/${pool}/${set}/${name}`, parseQuantity(value));
      for (const [id, device] of consumers) if (isUsed(id)) this.#take(`${driver}/${pool}`, device, 1);
    }
  }

  fits({ driver, pool, device, counters }: Offer): boolean {
    for (const { counterSet, counters: wanted } of device.consumesCounters ?? []) {
      if (!counters.has(counterSet)) return false;
      for (const [name, { value }] of Object.entries(wanted)) {
        const left = this.#left.get(`${driver}/${pool}/${counterSet}/${name}`) ?? zero;
        if (left.compare(parseQuantity(value)) < 0) return false;
      }
    }
    return true;
  }
  take({ driver, pool, device }: Offer, by: 1 | -1): void {
    this.#take(`${driver}/${pool}`, device, by);
  }

  #take(pool: string, { consumesCounters = [] }: Device, by: 1 | -1): void {
    for (const { counterSet, counters } of consumesCounters)
      for (const [name, { value }] of Object.entries(counters)) {
        const key = `${pool}/${counterSet}/${name}`;
        const left = this.#left.get(key);
        if (left === undefined) continue;
        const amount = parseQuantity(value);
        this.#left.set(key, by === 1 ? left.minus(amount) : left.plus(amount));
      }
  }
}
