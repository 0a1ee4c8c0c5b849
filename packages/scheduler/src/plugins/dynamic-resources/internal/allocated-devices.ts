import { parseQuantity, type ParsedQuantity, zeroQuantity } from '@oarlock/api/values/quantity';
import type { AllocationResult, Device, ResourceClaim } from '@oarlock/api/types/resource-v1';
import { deviceId, type PoolDevice, type DevicePool } from './device-pools.ts';
import { consumptionOfResult, DeviceShares } from './consumable-capacity.ts';

/** The allocated devices, from written and in-flight allocations. */
export class AllocatedDevices {
  /** The number of allocations of each device. */
  readonly #allocationCounts = new Map<string, number>();
  /** The allocated shares of devices that allow multiple allocations. */
  readonly shares = new DeviceShares();

  isAllocated(id: string): boolean {
    return this.#allocationCounts.has(id);
  }

  claimChanged(before: ResourceClaim | undefined, now: ResourceClaim | undefined): void {
    this.adjust(before?.status?.allocation, -1);
    this.adjust(now?.status?.allocation, 1);
  }

  /** Adds or removes an allocation. Does not count devices with admin access. */
  adjust(allocation: AllocationResult | undefined, by: 1 | -1): void {
    for (const result of allocation?.devices?.results ?? []) {
      const { driver, pool, device, adminAccess, shareID = '' } = result;
      if (adminAccess === true) continue;
      const id = deviceId(driver, pool, device);
      if (shareID !== '') {
        this.shares.adjust(id, consumptionOfResult(result), by);
        continue;
      }
      const left = (this.#allocationCounts.get(id) ?? 0) + by;
      if (left <= 0) this.#allocationCounts.delete(id);
      else this.#allocationCounts.set(id, left);
    }
  }
}

/** The remaining values of the counters that the devices of a pool share (KEP-4815). */
export class SharedCounters {
  readonly #remaining = new Map<string, ParsedQuantity>();

  constructor(pools: readonly DevicePool[], isAllocated: (id: string) => boolean) {
    for (const { devices, consumers, driver, name: pool } of pools) {
      for (const [set, own] of devices[0]?.counters ?? [])
        for (const [name, { value }] of Object.entries(own)) this.#remaining.set(`${driver}/${pool}/${set}/${name}`, parseQuantity(value));
      for (const [id, device] of consumers) if (isAllocated(id)) this.#adjust(`${driver}/${pool}`, device, 1);
    }
  }

  fits({ driver, pool, device, counters }: PoolDevice): boolean {
    for (const { counterSet, counters: requested } of device.consumesCounters ?? []) {
      if (!counters.has(counterSet)) return false;
      for (const [name, { value }] of Object.entries(requested)) {
        const left = this.#remaining.get(`${driver}/${pool}/${counterSet}/${name}`) ?? zeroQuantity;
        if (left.compare(parseQuantity(value)) < 0) return false;
      }
    }
    return true;
  }
  adjust({ driver, pool, device }: PoolDevice, by: 1 | -1): void {
    this.#adjust(`${driver}/${pool}`, device, by);
  }

  #adjust(pool: string, { consumesCounters = [] }: Device, by: 1 | -1): void {
    for (const { counterSet, counters } of consumesCounters)
      for (const [name, { value }] of Object.entries(counters)) {
        const key = `${pool}/${counterSet}/${name}`;
        const left = this.#remaining.get(key);
        if (left === undefined) continue;
        const amount = parseQuantity(value);
        this.#remaining.set(key, by === 1 ? left.minus(amount) : left.plus(amount));
      }
  }
}
