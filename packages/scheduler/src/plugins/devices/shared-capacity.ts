import { parseQuantity, zero, type Amount } from '@oarlock/api/quantity';
import type { CapacityRequestPolicy, Device, DeviceCapacity, DeviceRequestAllocationResult } from '@oarlock/api/types/resource-v1';
import type { Quantity } from '@oarlock/api/types/meta-v1';

/** What an allocation takes of a device, by the name of the capacity. */
export type Consumption = ReadonlyMap<string, Amount>;
type Wanted = Readonly<Record<string, Quantity>>;

const none: Consumption = new Map();

/** What is taken of one capacity; undefined: so much cannot be had of it at once (KEP-5075). */
function taken({ value, requestPolicy }: DeviceCapacity, wanted: Quantity | undefined): Amount | undefined {
  const whole = parseQuantity(value);
  const least = parseQuantity(wanted ?? requestPolicy?.default ?? whole);
  const amount = requestPolicy === undefined ? least : rounded(requestPolicy, least);
  return amount !== undefined && amount.compare(whole) <= 0 ? amount : undefined;
}

/** Up to what the policy allows. */
function rounded({ validValues = [], validRange }: CapacityRequestPolicy, least: Amount): Amount | undefined {
  if (validValues.length > 0) {
    const enough = validValues.map((each) => parseQuantity(each)).filter((each) => each.compare(least) >= 0);
    return enough.length === 0 ? undefined : enough.reduce((a, b) => (a.compare(b) <= 0 ? a : b));
  }
  if (validRange === undefined) return least;
  const min = parseQuantity(validRange.min);
  let amount = least.compare(min) < 0 ? min : least;
  const step = validRange.step === undefined ? zero : parseQuantity(validRange.step);
  if (step.sign > 0) {
    const over = amount.minus(min).nanos;
    amount = min.plus(step.times((over + step.nanos - 1n) / step.nanos));
  }
  return validRange.max !== undefined && amount.compare(parseQuantity(validRange.max)) > 0 ? undefined : amount;
}

/** What an allocation takes of each capacity of a device; undefined when the device does not have what is wanted. */
export function consumptionOf({ capacity = {} }: Device, wanted: Wanted): Consumption | undefined {
  if (Object.keys(wanted).some((name) => capacity[name] === undefined)) return undefined;
  const found = new Map<string, Amount>();
  for (const [name, each] of Object.entries(capacity)) {
    const amount = taken(each, wanted[name]);
    if (amount === undefined) return undefined;
    found.set(name, amount);
  }
  return found;
}

interface Share {
  count: number;
  readonly sums: Map<string, Amount>;
}

/** Shares of devices that several allocations may have at once. */
export class DeviceShares {
  readonly #shares = new Map<string, Share>();

  /** Somebody has a share. */
  has(id: string): boolean {
    return this.#shares.has(id);
  }
  of(id: string, name: string): Amount {
    return this.#shares.get(id)?.sums.get(name) ?? zero;
  }

  give(id: string, consumption: Consumption, by: 1 | -1): void {
    let share = this.#shares.get(id);
    if (share === undefined) this.#shares.set(id, (share = { count: 0, sums: new Map() }));
    share.count += by;
    for (const [name, amount] of consumption) {
      const sum = share.sums.get(name) ?? zero;
      share.sums.set(name, by === 1 ? sum.plus(amount) : sum.minus(amount));
    }
    if (share.count <= 0) this.#shares.delete(id);
  }
}

/** Whether a share fits beside those that are given away, and those that are about to be. */
export function fitsBeside(id: string, { capacity = {} }: Device, consumption: Consumption, all: readonly DeviceShares[]): boolean {
  for (const [name, amount] of consumption) {
    const sum = all.reduce((total, shares) => total.plus(shares.of(id, name)), amount);
    if (sum.compare(parseQuantity(capacity[name]?.value ?? zero)) > 0) return false;
  }
  return true;
}

export const consumedBy = ({ consumedCapacity }: DeviceRequestAllocationResult): Consumption =>
  consumedCapacity === undefined ? none : new Map(Object.entries(consumedCapacity).map(([name, each]) => [name, parseQuantity(each)]));
