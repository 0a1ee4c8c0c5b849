import { parseQuantity, zeroQuantity, type ParsedQuantity } from '@oarlock/api/values/quantity';
import type { CapacityRequestPolicy, Device, DeviceCapacity, DeviceRequestAllocationResult } from '@oarlock/api/types/resource-v1';
import type { Quantity } from '@oarlock/api/types/meta-v1';

/** The capacity that an allocation consumes of a device, by capacity name. */
export type Consumption = ReadonlyMap<string, ParsedQuantity>;
type RequestedCapacity = Readonly<Record<string, Quantity>>;

const none: Consumption = new Map();

/**
 * Returns the amount that a request consumes of one capacity. Returns undefined if the device has less, or if the capacity's request policy forbids
 * the amount (KEP-5075).
 */
function consumedAmount({ value, requestPolicy }: DeviceCapacity, requested: Quantity | undefined): ParsedQuantity | undefined {
  const total = parseQuantity(value);
  const least = parseQuantity(requested ?? requestPolicy?.default ?? total);
  const amount = requestPolicy === undefined ? least : roundToPolicy(requestPolicy, least);
  return amount !== undefined && amount.compare(total) <= 0 ? amount : undefined;
}

/** Rounds an amount up to the next amount that the request policy allows. Returns undefined if there is none. */
function roundToPolicy({ validValues = [], validRange }: CapacityRequestPolicy, least: ParsedQuantity): ParsedQuantity | undefined {
  if (validValues.length > 0) {
    const enough = validValues.map((each) => parseQuantity(each)).filter((each) => each.compare(least) >= 0);
    return enough.length === 0 ? undefined : enough.reduce((a, b) => (a.compare(b) <= 0 ? a : b));
  }
  if (validRange === undefined) return least;
  const min = parseQuantity(validRange.min);
  let amount = least.compare(min) < 0 ? min : least;
  const step = validRange.step === undefined ? zeroQuantity : parseQuantity(validRange.step);
  if (step.sign > 0) {
    const over = amount.minus(min).nanos;
    amount = min.plus(step.times((over + step.nanos - 1n) / step.nanos));
  }
  return validRange.max !== undefined && amount.compare(parseQuantity(validRange.max)) > 0 ? undefined : amount;
}

/** Returns the amount that an allocation consumes of each capacity of a device, or undefined if the device lacks a requested capacity. */
export function consumptionOf({ capacity = {} }: Device, requested: RequestedCapacity): Consumption | undefined {
  if (Object.keys(requested).some((name) => capacity[name] === undefined)) return undefined;
  const found = new Map<string, ParsedQuantity>();
  for (const [name, each] of Object.entries(capacity)) {
    const amount = consumedAmount(each, requested[name]);
    if (amount === undefined) return undefined;
    found.set(name, amount);
  }
  return found;
}

interface Share {
  count: number;
  readonly sums: Map<string, ParsedQuantity>;
}

/** The allocated shares of devices that allow multiple allocations. */
export class DeviceShares {
  readonly #shares = new Map<string, Share>();

  /** Returns true if a share of the device is allocated. */
  has(id: string): boolean {
    return this.#shares.has(id);
  }
  /** Returns the sum of the allocated shares of one capacity of a device. */
  of(id: string, name: string): ParsedQuantity {
    return this.#shares.get(id)?.sums.get(name) ?? zeroQuantity;
  }

  adjust(id: string, consumption: Consumption, by: 1 | -1): void {
    let share = this.#shares.get(id);
    if (share === undefined) this.#shares.set(id, (share = { count: 0, sums: new Map() }));
    share.count += by;
    for (const [name, amount] of consumption) {
      const sum = share.sums.get(name) ?? zeroQuantity;
      share.sums.set(name, by === 1 ? sum.plus(amount) : sum.minus(amount));
    }
    if (share.count <= 0) this.#shares.delete(id);
  }
}

/** Returns true if a share fits in addition to the allocated shares and the shares of the current attempt. */
export function hasRemainingCapacity(
  id: string,
  { capacity = {} }: Device,
  consumption: Consumption,
  all: readonly DeviceShares[],
): boolean {
  for (const [name, amount] of consumption) {
    const sum = all.reduce((total, shares) => total.plus(shares.of(id, name)), amount);
    if (sum.compare(parseQuantity(capacity[name]?.value ?? zeroQuantity)) > 0) return false;
  }
  return true;
}

export const consumptionOfResult = ({ consumedCapacity }: DeviceRequestAllocationResult): Consumption =>
  consumedCapacity === undefined ? none : new Map(Object.entries(consumedCapacity).map(([name, each]) => [name, parseQuantity(each)]));
