import { randomUUID } from 'node:crypto';
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
import { tolerates } from '../tolerations.ts';
import { ConstraintState } from './device-constraint.ts';
import type { Offer, Pool } from './device-pools.ts';
import { selects } from './device-selector.ts';
import type { CounterUse } from './device-use.ts';
import { nodeSelectorOf } from './node-selector.ts';
import { consumptionOf, DeviceShares, fitsBeside, type Consumption } from './shared-capacity.ts';

/** One request, or one alternative of it. */
interface Wish {
  /** `gpu`, or `gpu/large` for an alternative. */
  readonly name: string;
  readonly selectors: readonly DeviceSelector[];
  readonly classSelectors: readonly DeviceSelector[];
  readonly className: string;
  readonly all: boolean;
  readonly count: number;
  readonly admin: boolean;
  readonly tolerations: readonly DeviceToleration[];
  /** What a device must have at least, or give of what it has, by the name of the capacity. */
  readonly capacity: Readonly<Record<string, Quantity>>;
}
type Classes = (name: string) => DeviceClass | undefined;

/** As many results an allocation can hold. */
const mostDevices = 32;

function wishesOf({ name, exactly, firstAvailable = [] }: DeviceRequest, classes: Classes): readonly Wish[] {
  const wish = (
    full: string,
    {
      selectors = [],
      deviceClassName,
      allocationMode = 'ExactCount',
      count = 1,
      tolerations = [],
      capacity,
    }: NonNullable<DeviceRequest['exactly']>,
    admin = false,
  ): Wish => ({
    name: full,
    selectors,
    className: deviceClassName,
    classSelectors: classes(deviceClassName)?.spec.selectors ?? [],
    all: allocationMode === 'All',
    count,
    admin,
    tolerations,
    capacity: capacity?.requests ?? {},
  });
  if (exactly !== undefined) return [wish(name, exactly, exactly.adminAccess === true)];
  return firstAvailable.map((each) => wish(`${name}/${each.name}`, each));
}

/** The class that a request names and that there is not, in upstream's words. */
export function missingClass({ spec }: ResourceClaim, classes: Classes): string | undefined {
  for (const { name, exactly, firstAvailable = [] } of spec.devices?.requests ?? []) {
    const wanted =
      exactly === undefined
        ? firstAvailable.map((each) => ({ request: `${name}/${each.name}`, className: each.deviceClassName }))
        : [{ request: name, className: exactly.deviceClassName }];
    for (const { request, className } of wanted)
      if (classes(className) === undefined) return `request ${request}: device class ${className} does not exist`;
  }
  return undefined;
}

const barring: ReadonlySet<string> = new Set(['NoSchedule', 'NoExecute']);
const isTolerated = ({ taints = [] }: Device, tolerations: readonly DeviceToleration[]) =>
  taints.every((taint) => !barring.has(taint.effect) || tolerations.some((each) => tolerates(each, taint)));

const shareOf = ({ capacity, admin }: Wish, { device }: Offer): Consumption | undefined =>
  device.allowMultipleAllocations === true && !admin ? consumptionOf(device, capacity) : undefined;

export interface AllocatorOptions {
  readonly node: Node;
  readonly pools: readonly Pool[];
  readonly counters: CounterUse;
  readonly isUsed: (id: string) => boolean;
  /** What is given away of devices that several may have. */
  readonly shares: DeviceShares;
  readonly classes: Classes;
  /** Whether time is up. Asked now and then. */
  readonly isLate: () => boolean;
}

/** One device for one wish. */
interface Pick {
  readonly wish: Wish;
  readonly offer: Offer;
  /** Of a device that others may have too. */
  readonly share: Consumption | undefined;
}

/** Finds devices on a node for all claims of a pod together, by trying; in the order of requests, pools and devices. */
export class Allocator {
  readonly #options: AllocatorOptions;
  readonly #taken = new Set<string>();
  readonly #shares = new DeviceShares();
  #steps = 0;

  constructor(options: AllocatorOptions) {
    this.#options = options;
  }

  /** By claim, in their order; undefined when it cannot be done. @throws Error for a selector that fails, or when it takes too long */
  allocate(claims: readonly ResourceClaim[]): readonly AllocationResult[] | undefined {
    const picks: Pick[][] = claims.map(() => []);
    const done = this.#claim(claims, 0, picks);
    return done ? claims.map((claim, index) => this.#result(claim, picks[index] ?? [])) : undefined;
  }

  #claim(claims: readonly ResourceClaim[], at: number, picks: Pick[][]): boolean {
    const claim = claims[at];
    if (claim === undefined) return true;
    const { requests = [], constraints = [] } = claim.spec.devices ?? {};
    const states = constraints.map((each) => new ConstraintState(each));
    return this.#request(requests, 0, picks[at] ?? [], states, claim, () => this.#claim(claims, at + 1, picks));
  }

  #request(
    requests: readonly DeviceRequest[],
    at: number,
    picks: Pick[],
    constraints: readonly ConstraintState[],
    claim: ResourceClaim,
    rest: () => boolean,
  ): boolean {
    const request = requests[at];
    if (request === undefined) return rest();
    const next = () => this.#request(requests, at + 1, picks, constraints, claim, rest);
    for (const wish of wishesOf(request, this.#options.classes)) {
      const whose = `claim ${claim.metadata?.namespace}/${claim.metadata?.name}, request ${wish.name}`;
      const offers = this.#offersFor(wish, whose);
      if (offers === undefined) continue;
      const count = wish.all ? offers.length : wish.count;
      if (count === 0 || picks.length + count > mostDevices) continue;
      if (this.#choose(wish, offers, 0, count, picks, constraints, next)) return true;
    }
    return false;
  }

  /** Those that the wish may choose from; undefined when it wants all and cannot be sure of having them. */
  #offersFor(wish: Wish, whose: string): readonly Offer[] | undefined {
    const found: Offer[] = [];
    for (const { offers, incomplete, invalid } of this.#options.pools) {
      const chosen = offers.filter(
        ({ device, driver }) =>
          consumptionOf(device, wish.capacity) !== undefined &&
          selects(wish.classSelectors, device, driver, `class ${wish.className}`) &&
          selects(wish.selectors, device, driver, whose),
      );
      if (chosen.length === 0) continue;
      if (wish.all && (incomplete || invalid !== undefined)) return undefined;
      if (invalid === undefined) found.push(...chosen);
    }
    return found;
  }

  #choose(
    wish: Wish,
    offers: readonly Offer[],
    from: number,
    count: number,
    picks: Pick[],
    constraints: readonly ConstraintState[],
    next: () => boolean,
  ): boolean {
    if (count === 0) return next();
    if ((++this.#steps & 1023) === 0 && this.#options.isLate()) throw new Error('timed out trying to allocate devices');
    for (let index = from; index < offers.length; index++) {
      const offer = offers[index] as Offer;
      const pick: Pick = { wish, offer, share: shareOf(wish, offer) };
      if (this.#isFree(pick) && isTolerated(offer.device, wish.tolerations)) {
        const held = constraints.findIndex((each) => !each.add(wish.name, offer.device, offer.driver));
        if (held < 0) {
          this.#take(pick);
          picks.push(pick);
          // of one that several may have, the same wish may get several shares
          const rest = pick.share !== undefined && !wish.all ? index : index + 1;
          if (this.#choose(wish, offers, rest, count - 1, picks, constraints, next)) return true;
          picks.pop();
          this.#giveBack(pick);
        }
        for (const each of held < 0 ? constraints : constraints.slice(0, held)) each.remove(wish.name);
      }
      if (wish.all) return false; // every one of them is needed
    }
    return false;
  }

  #isFree({ wish, offer, share }: Pick): boolean {
    const { counters, isUsed, shares } = this.#options;
    if (wish.admin) return true;
    if (this.#taken.has(offer.id) || isUsed(offer.id)) return false;
    if (share === undefined) return !shares.has(offer.id) && counters.fits(offer);
    return fitsBeside(offer.id, offer.device, share, [shares, this.#shares]) && (this.#isShared(offer) || counters.fits(offer));
  }
  /** What it takes of what devices have in common, is taken already. */
  #isShared({ id }: Offer): boolean {
    return this.#options.shares.has(id) || this.#shares.has(id);
  }
  #take({ wish, offer, share }: Pick): void {
    if (wish.admin) return;
    if (share === undefined || !this.#isShared(offer)) this.#options.counters.take(offer, 1);
    if (share === undefined) this.#taken.add(offer.id);
    else this.#shares.give(offer.id, share, 1);
  }
  #giveBack({ wish, offer, share }: Pick): void {
    if (wish.admin) return;
    if (share === undefined) this.#taken.delete(offer.id);
    else this.#shares.give(offer.id, share, -1);
    if (share === undefined || !this.#isShared(offer)) this.#options.counters.take(offer, -1);
  }

  #result({ spec }: ResourceClaim, picks: readonly Pick[]): AllocationResult {
    const results = picks.map(
      ({ wish, offer: { driver, pool, device }, share }): DeviceRequestAllocationResult => ({
        request: wish.name,
        driver,
        pool,
        device: device.name,
        ...(wish.admin && { adminAccess: true }),
        ...(share && {
          shareID: randomUUID(),
          consumedCapacity: Object.fromEntries([...share].map(([name, amount]) => [name, amount.toString()])),
        }),
        ...(wish.tolerations.length > 0 && { tolerations: wish.tolerations }),
        ...(device.bindingConditions?.length && { bindingConditions: device.bindingConditions }),
        ...(device.bindingFailureConditions?.length && { bindingFailureConditions: device.bindingFailureConditions }),
      }),
    );
    const config = this.#configOf(spec.devices?.config ?? [], picks);
    const nodeSelector = nodeSelectorOf(
      picks.map(({ offer }) => offer),
      this.#options.node.metadata?.name ?? '',
    );
    return { devices: { results, ...(config.length > 0 && { config }) }, ...(nodeSelector && { nodeSelector }) };
  }

  /** What classes say comes first, so that claims can say otherwise. */
  #configOf(
    own: NonNullable<NonNullable<ResourceClaim['spec']['devices']>['config']>,
    picks: readonly Pick[],
  ): readonly DeviceAllocationConfiguration[] {
    const wishes = [...new Map(picks.map(({ wish }) => [wish.name, wish])).values()];
    const fromClasses = wishes.flatMap(({ name, className }) =>
      (this.#options.classes(className)?.spec.config ?? []).map((each) => ({ source: 'FromClass', requests: [name], ...each })),
    );
    const isMeant = (request: string) => wishes.some(({ name }) => name === request || name.startsWith(`${request}/`));
    const fromClaim = own
      .filter(({ requests = [] }) => requests.length === 0 || requests.some(isMeant))
      .map(({ requests = [], ...rest }) => ({ source: 'FromClaim', ...(requests.length > 0 && { requests }), ...rest }));
    return [...fromClasses, ...fromClaim];
  }
}
