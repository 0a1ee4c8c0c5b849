import { randomUUID } from 'node:crypto';
import { toleratesDeviceTaint } from '@oarlock/api/component-helpers/tolerations';
import type { Node } from '@oarlock/api/types/core-v1';
import type { Quantity } from '@oarlock/api/types/meta-v1';
import type {
  AllocationResult,
  Device,
  DeviceAllocationConfiguration,
  DeviceClass,
  DeviceRequest,
  DeviceRequestAllocationResult,
  DeviceSelector,
  DeviceToleration,
  ResourceClaim,
} from '@oarlock/api/types/resource-v1';
import { DeviceConstraintMatcher } from './device-constraint.ts';
import type { PoolDevice, DevicePool } from './device-pools.ts';
import { matchesSelectors } from './device-selector.ts';
import type { SharedCounters } from './allocated-devices.ts';
import { nodeSelectorOf } from './node-selector.ts';
import { consumptionOf, DeviceShares, hasRemainingCapacity, type Consumption } from './consumable-capacity.ts';

/** One device request, or one alternative of a request. */
interface RequestData {
  /** Name such as `gpu`, or `gpu/large` for an alternative. */
  readonly name: string;
  readonly selectors: readonly DeviceSelector[];
  readonly classSelectors: readonly DeviceSelector[];
  readonly className: string;
  readonly allDevices: boolean;
  readonly count: number;
  readonly adminAccess: boolean;
  readonly tolerations: readonly DeviceToleration[];
  /** The requested capacity, by name: a minimum, or for a device that allows multiple allocations the share to consume. */
  readonly capacity: Readonly<Record<string, Quantity>>;
}
type DeviceClassLister = (name: string) => DeviceClass | undefined;

/** Number of search steps between two checks of the timeout; a power of two. */
const stepsPerTimeoutCheck = 1024;
/** Maximum number of devices in an allocation, as the API limits it. */
const maxResults = 32;

function requestAlternatives({ name, exactly, firstAvailable = [] }: DeviceRequest, classes: DeviceClassLister): readonly RequestData[] {
  const toRequestData = (
    fullName: string,
    {
      selectors = [],
      deviceClassName,
      allocationMode = 'ExactCount',
      count = 1,
      tolerations = [],
      capacity,
    }: NonNullable<DeviceRequest['exactly']>,
    adminAccess = false,
  ): RequestData => ({
    name: fullName,
    selectors,
    className: deviceClassName,
    classSelectors: classes(deviceClassName)?.spec.selectors ?? [],
    allDevices: allocationMode === 'All',
    count,
    adminAccess,
    tolerations,
    capacity: capacity?.requests ?? {},
  });
  if (exactly !== undefined) return [toRequestData(name, exactly, exactly.adminAccess === true)];
  return firstAvailable.map((each) => toRequestData(`${name}/${each.name}`, each));
}

/** Returns upstream's message for the first request whose DeviceClass does not exist, or undefined if all exist. */
export function missingDeviceClass({ spec }: ResourceClaim, classes: DeviceClassLister): string | undefined {
  for (const { name, exactly, firstAvailable = [] } of spec.devices?.requests ?? []) {
    const classNames =
      exactly === undefined
        ? firstAvailable.map((each) => ({ request: `${name}/${each.name}`, className: each.deviceClassName }))
        : [{ request: name, className: exactly.deviceClassName }];
    for (const { request, className } of classNames)
      if (classes(className) === undefined) return `request ${request}: device class ${className} does not exist`;
  }
  return undefined;
}

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
  readonly #allocatedIds = new Set<string>();
  readonly #shares = new DeviceShares();
  #steps = 0;

  constructor(options: AllocatorOptions) {
    this.#options = options;
  }

  /**
   * Returns the allocations in the order of `claims`, or undefined if the node cannot satisfy all claims.
   * @throws Error if a CEL selector fails or if the timeout expires
   */
  allocate(claims: readonly ResourceClaim[]): readonly AllocationResult[] | undefined {
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
      const subject = `claim ${claim.metadata?.namespace}/${claim.metadata?.name}, request ${alternative.name}`;
      const candidates = this.#matchingDevices(alternative, subject);
      if (candidates === undefined) continue;
      const count = alternative.allDevices ? candidates.length : alternative.count;
      if (count === 0 || picks.length + count > maxResults) continue;
      if (this.#choose(alternative, candidates, { from: 0, count, picks, constraints, next })) return true;
    }
    return false;
  }

  /** Returns the devices that match a request. Returns undefined if the request is for all devices and a pool is incomplete or invalid. */
  #matchingDevices(request: RequestData, subject: string): readonly PoolDevice[] | undefined {
    const found: PoolDevice[] = [];
    for (const { devices, incomplete, invalid } of this.#options.pools) {
      if (request.allDevices && (incomplete || invalid !== undefined)) return undefined;
      const matching = devices.filter(
        ({ device, driver }) =>
          consumptionOf(device, request.capacity) !== undefined &&
          matchesSelectors(request.classSelectors, device, driver, `class ${request.className}`) &&
          matchesSelectors(request.selectors, device, driver, subject),
      );
      found.push(...matching);
    }
    return found;
  }

  #choose(
    request: RequestData,
    candidates: readonly PoolDevice[],
    {
      from,
      count,
      picks,
      constraints,
      next,
    }: {
      readonly from: number;
      readonly count: number;
      readonly picks: PickedDevice[];
      readonly constraints: readonly DeviceConstraintMatcher[];
      readonly next: () => boolean;
    },
  ): boolean {
    if (count === 0) return next();
    if ((++this.#steps & (stepsPerTimeoutCheck - 1)) === 0 && this.#options.isTimedOut())
      throw new Error('timed out trying to allocate devices');
    for (let index = from; index < candidates.length; index++) {
      const candidate = candidates[index] as PoolDevice;
      const pick: PickedDevice = { request, candidate, share: shareOf(request, candidate) };
      if (this.#isFree(pick) && isTolerated(candidate.device, request.tolerations)) {
        const violated = constraints.findIndex((each) => !each.add(request.name, candidate.device, candidate.driver));
        if (violated < 0) {
          this.#addDevice(pick);
          picks.push(pick);
          // a request may get several shares of a device that allows multiple allocations
          const rest = pick.share !== undefined && !request.allDevices ? index : index + 1;
          if (this.#choose(request, candidates, { from: rest, count: count - 1, picks, constraints, next })) return true;
          picks.pop();
          this.#removeDevice(pick);
        }
        for (const each of violated < 0 ? constraints : constraints.slice(0, violated)) each.remove(request.name);
      }
      if (request.allDevices) return false; // all devices are required
    }
    return false;
  }

  #isFree({ request, candidate, share }: PickedDevice): boolean {
    const { counters, isAllocated, shares } = this.#options;
    if (request.adminAccess) return true;
    if (this.#allocatedIds.has(candidate.id) || isAllocated(candidate.id)) return false;
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
    const fromClasses = requests.flatMap(({ name, className }) =>
      (this.#options.classes(className)?.spec.config ?? []).map((each) => ({ source: 'FromClass', requests: [name], ...each })),
    );
    const appliesTo = (request: string) => requests.some(({ name }) => name === request || name.startsWith(`${request}/`));
    const fromClaim = own
      .filter(({ requests = [] }) => requests.length === 0 || requests.some(appliesTo))
      .map(({ requests = [], ...rest }) => ({ source: 'FromClaim', ...(requests.length > 0 && { requests }), ...rest }));
    return [...fromClasses, ...fromClaim];
  }
}
