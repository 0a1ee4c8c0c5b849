import { randomUUID } from 'node:crypto';
import { objectKey } from '@oarlock/api/object';
import { toleratesDeviceTaint } from '@oarlock/api/component-helpers/tolerations';
import type { Node } from '@oarlock/api/types/core-v1';
import type {
  AllocationResult,
  Device,
  DeviceAllocationConfiguration,
  DeviceRequest,
  DeviceRequestAllocationResult,
  DeviceToleration,
  ResourceClaim,
} from '@oarlock/api/types/resource-v1';
import { DeviceConstraintMatcher } from './device-constraint.ts';
import type { PoolDevice, DevicePool } from './device-pools.ts';
import { matchesSelectors } from './device-selector.ts';
import type { SharedCounters } from './allocated-devices.ts';
import { nodeSelectorOf } from './node-selector.ts';
import { requestAlternatives, type DeviceClassLister, type RequestData } from './request-data.ts';
import { consumptionOf, DeviceShares, hasRemainingCapacity, type Consumption } from './consumable-capacity.ts';

/** Number of search steps between two checks of the timeout; a power of two. */
const stepsPerTimeoutCheck = 1024;
/** Maximum number of devices in an allocation, as the API limits it. */
const maxResults = 32;

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);

const blockingTaintEffects: ReadonlySet<string> = new Set(['NoSchedule', 'NoExecute']);
const isTolerated = ({ taints = [] }: Device, tolerations: readonly DeviceToleration[]) =>
  taints.every((taint) => !blockingTaintEffects.has(taint.effect) || tolerations.some((each) => toleratesDeviceTaint(each, taint)));

const shareOf = ({ capacity, adminAccess }: RequestData, { device }: PoolDevice): Consumption | undefined =>
  device.allowMultipleAllocations === true && !adminAccess ? consumptionOf(device, capacity) : undefined;

export interface AllocatorOptions {
  readonly node: Node;
  readonly pools: readonly DevicePool[];
  readonly counters: SharedCounters;
  readonly isAllocated: (id: string) => boolean;
  /** Allocated shares of devices that allow multiple allocations. */
  readonly shares: DeviceShares;
  readonly classes: DeviceClassLister;
  /** Returns true after the deadline. Called every 1024 steps. */
  readonly isTimedOut: () => boolean;
}

/** The time for an allocation has expired. */
export class AllocationTimeout extends Error {
  constructor() {
    super('timed out trying to allocate devices');
  }
}

/** A device chosen for a request. */
interface PickedDevice {
  readonly request: RequestData;
  readonly candidate: PoolDevice;
  /** The capacity that the allocation consumes, for a device that allows multiple allocations. */
  readonly share: Consumption | undefined;
}

/** Allocates devices of a node to all claims of a pod by backtracking, in the order of requests, pools and devices. */
export class Allocator {
  readonly #options: AllocatorOptions;
  readonly #devices: readonly PoolDevice[];
  readonly #allocatedIds = new Set<string>();
  readonly #shares = new DeviceShares();
  #steps = 0;

  constructor(options: AllocatorOptions) {
    this.#options = options;
    this.#devices = options.pools.flatMap(({ devices }) => devices);
  }

  /**
   * Returns the allocations in the order of `claims`, or undefined if the node cannot satisfy all claims.
   * @throws Error if a CEL selector fails, if a claim requests too many devices, or all devices of a pool that is incomplete or invalid;
   * AllocationTimeout if the timeout expires
   */
  allocate(claims: readonly ResourceClaim[]): readonly AllocationResult[] | undefined {
    for (const claim of claims) this.#validateClaim(claim);
    const picks: PickedDevice[][] = claims.map(() => []);
    const isAllocated = this.#allocateClaim(claims, 0, picks);
    return isAllocated ? claims.map((claim, index) => this.#result(claim, picks[index] ?? [])) : undefined;
  }

  #allocateClaim(claims: readonly ResourceClaim[], at: number, picks: PickedDevice[][]): boolean {
    const claim = claims[at];
    if (claim === undefined) return true;
    const { requests = [], constraints = [] } = claim.spec.devices ?? {};
    const states = constraints.map((each) => new DeviceConstraintMatcher(each));
    return this.#allocateRequest(requests, 0, {
      picks: picks[at] ?? [],
      constraints: states,
      claim,
      rest: () => this.#allocateClaim(claims, at + 1, picks),
    });
  }

  #allocateRequest(
    requests: readonly DeviceRequest[],
    at: number,
    {
      picks,
      constraints,
      claim,
      rest,
    }: {
      readonly picks: PickedDevice[];
      readonly constraints: readonly DeviceConstraintMatcher[];
      readonly claim: ResourceClaim;
      readonly rest: () => boolean;
    },
  ): boolean {
    const request = requests[at];
    if (request === undefined) return rest();
    const next = () => this.#allocateRequest(requests, at + 1, { picks, constraints, claim, rest });
    for (const alternative of requestAlternatives(request, this.#options.classes)) {
      const isSelected = this.#selectionOf(alternative, claim);
      const candidates = alternative.allDevices ? this.#devices.filter(isSelected) : this.#devices;
      const count = alternative.allDevices ? candidates.length : alternative.count;
      if (count === 0 || picks.length + count > maxResults) continue;
      if (this.#choose(alternative, candidates, { isSelected, from: 0, count, picks, constraints, next })) return true;
    }
    return false;
  }

  /** Throws upstream's error for a claim that cannot be satisfied on this node for a reason other than its devices. */
  #validateClaim(claim: ResourceClaim): void {
    const minimums = (claim.spec.devices?.requests ?? []).map((request) => {
      const counts = requestAlternatives(request, this.#options.classes).map((each) => this.#countDevices(each, claim));
      return counts.length === 0 ? 0 : Math.min(...counts);
    });
    const total = sum(minimums);
    if (total > maxResults)
      throw new Error(`claim ${objectKey(claim)}: number of requested devices ${total} exceeds the claim limit of ${maxResults}`);
  }

  /** Returns the number of devices that a request needs. */
  #countDevices(request: RequestData, claim: ResourceClaim): number {
    if (!request.allDevices) return request.count;
    for (const { driver, name, incomplete, invalid } of this.#options.pools) {
      const state = incomplete ? 'being updated' : invalid === undefined ? undefined : 'invalid';
      if (state !== undefined)
        throw new Error(
          `claim ${objectKey(claim)}, request ${request.ownName}: asks for all devices, but resource pool ${driver}/${name} is currently ${state}`,
        );
    }
    return this.#devices.filter(this.#selectionOf(request, claim)).length;
  }

  /** Returns a function that returns whether a request selects a device, by its capacity and the selectors of the class and the request. */
  #selectionOf(request: RequestData, claim: ResourceClaim): (candidate: PoolDevice) => boolean {
    const subject = `claim ${objectKey(claim)}, request ${request.name}`;
    return ({ device, driver }) =>
      consumptionOf(device, request.capacity) !== undefined &&
      matchesSelectors(request.classSelectors, device, driver, `class ${request.className}`) &&
      matchesSelectors(request.selectors, device, driver, subject);
  }

  #choose(
    request: RequestData,
    candidates: readonly PoolDevice[],
    {
      isSelected,
      from,
      count,
      picks,
      constraints,
      next,
    }: {
      readonly isSelected: (candidate: PoolDevice) => boolean;
      readonly from: number;
      readonly count: number;
      readonly picks: PickedDevice[];
      readonly constraints: readonly DeviceConstraintMatcher[];
      readonly next: () => boolean;
    },
  ): boolean {
    if (count === 0) return next();
    if ((++this.#steps & (stepsPerTimeoutCheck - 1)) === 0 && this.#options.isTimedOut()) throw new AllocationTimeout();
    for (let index = from; index < candidates.length; index++) {
      const candidate = candidates[index] as PoolDevice;
      // selectors are evaluated only for devices that are not in use, so that errors for other devices do not matter
      if (this.#isInUse(request, candidate) || !isSelected(candidate)) {
        if (request.allDevices) return false;
        continue;
      }
      const pick: PickedDevice = { request, candidate, share: shareOf(request, candidate) };
      if (this.#isFree(pick) && isTolerated(candidate.device, request.tolerations)) {
        const violated = constraints.findIndex((each) => !each.add(request.name, candidate.device, candidate.driver));
        if (violated < 0) {
          this.#addDevice(pick);
          picks.push(pick);
          // a request may get several shares of a device that allows multiple allocations
          const rest = pick.share !== undefined && !request.allDevices ? index : index + 1;
          if (this.#choose(request, candidates, { isSelected, from: rest, count: count - 1, picks, constraints, next })) return true;
          picks.pop();
          this.#removeDevice(pick);
        }
        for (const each of violated < 0 ? constraints : constraints.slice(0, violated)) each.remove(request.name);
      }
      if (request.allDevices) return false; // all devices are required
    }
    return false;
  }

  #isInUse(request: RequestData, { id }: PoolDevice): boolean {
    return !request.adminAccess && (this.#allocatedIds.has(id) || this.#options.isAllocated(id));
  }
  /** Returns true if a device that is not in use has enough left of what it shares with others. */
  #isFree({ request, candidate, share }: PickedDevice): boolean {
    const { counters, shares } = this.#options;
    if (request.adminAccess) return true;
    if (share === undefined) return !shares.has(candidate.id) && counters.fits(candidate);
    return (
      hasRemainingCapacity(candidate.id, candidate.device, share, [shares, this.#shares]) &&
      (this.#isShared(candidate) || counters.fits(candidate))
    );
  }
  /** Returns true if a share of the device is already allocated, so that its shared counters are already consumed. */
  #isShared({ id }: PoolDevice): boolean {
    return this.#options.shares.has(id) || this.#shares.has(id);
  }
  #addDevice({ request, candidate, share }: PickedDevice): void {
    if (request.adminAccess) return;
    if (share === undefined || !this.#isShared(candidate)) this.#options.counters.adjust(candidate, 1);
    if (share === undefined) this.#allocatedIds.add(candidate.id);
    else this.#shares.adjust(candidate.id, share, 1);
  }
  #removeDevice({ request, candidate, share }: PickedDevice): void {
    if (request.adminAccess) return;
    if (share === undefined) this.#allocatedIds.delete(candidate.id);
    else this.#shares.adjust(candidate.id, share, -1);
    if (share === undefined || !this.#isShared(candidate)) this.#options.counters.adjust(candidate, -1);
  }

  #result({ spec }: ResourceClaim, picks: readonly PickedDevice[]): AllocationResult {
    const results = picks.map(
      ({ request, candidate: { driver, pool, device }, share }): DeviceRequestAllocationResult => ({
        request: request.name,
        driver,
        pool,
        device: device.name,
        ...(request.adminAccess && { adminAccess: true }),
        ...(share && {
          shareID: randomUUID(),
          consumedCapacity: Object.fromEntries([...share].map(([name, amount]) => [name, amount.toString()])),
        }),
        ...(request.tolerations.length > 0 && { tolerations: request.tolerations }),
        ...(device.bindingConditions?.length && { bindingConditions: device.bindingConditions }),
        ...(device.bindingFailureConditions?.length && { bindingFailureConditions: device.bindingFailureConditions }),
      }),
    );
    const config = this.#configOf(spec.devices?.config ?? [], picks);
    const nodeSelector = nodeSelectorOf(
      picks.map(({ candidate }) => candidate),
      this.#options.node.metadata?.name ?? '',
    );
    return { devices: { results, ...(config.length > 0 && { config }) }, ...(nodeSelector && { nodeSelector }) };
  }

  /** Returns the device configuration of an allocation: first that of DeviceClasses, then that of the claim, which can override it. */
  #configOf(
    own: NonNullable<NonNullable<ResourceClaim['spec']['devices']>['config']>,
    picks: readonly PickedDevice[],
  ): readonly DeviceAllocationConfiguration[] {
    const requests = [...new Map(picks.map(({ request }) => [request.name, request])).values()];
    const namesByClass = new Map<string, string[]>();
    for (const { name, className } of requests) namesByClass.set(className, [...(namesByClass.get(className) ?? []), name]);
    const fromClasses = [...namesByClass].flatMap(([className, names]) =>
      (this.#options.classes(className)?.spec.config ?? []).map((each) => ({ source: 'FromClass', requests: names, ...each })),
    );
    const appliesTo = (request: string) => requests.some(({ name }) => name === request || name.startsWith(`${request}/`));
    const fromClaim = own
      .filter(({ requests = [] }) => requests.length === 0 || requests.some(appliesTo))
      .map(({ requests = [], ...rest }) => ({ source: 'FromClaim', ...(requests.length > 0 && { requests }), ...rest }));
    return [...fromClasses, ...fromClaim];
  }
}
