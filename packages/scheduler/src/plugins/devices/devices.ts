import { controllerOf, objectKey } from '@oarlock/api/object';
import { deviceClasses, resourceClaims, resourceSlices } from '@oarlock/api/resources';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { AllocationResult, Device, DeviceClass, ResourceClaim, ResourceSlice } from '@oarlock/api/types/resource-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Client, Informer, Informers } from '@oarlock/spi/client';
import { AssumeCache } from '../../assume-cache.ts';
import { Allocator } from './allocator.ts';
import { ClaimWriter } from './claim-writer.ts';
import { DevicePools } from './device-pools.ts';
import { selects } from './device-selector.ts';
import { CounterUse, DeviceUse } from './device-use.ts';
import { ExtendedResources, isExtendedClaim } from './extended-resources.ts';

const extendedByPod = 'extended-claims-by-pod';
const podOf = (claim: ResourceClaim) => (isExtendedClaim(claim) ? [controllerOf(claim)?.uid ?? ''] : []);

const shared = new WeakMap<Informers, Devices>();

/** The devices of a cluster, and who has them or is about to. */
export class Devices {
  /** The same for all plugins of a scheduler: what one of them gives away the others count. */
  static of(informers: Informers, client: Client, clock: Clock): Devices {
    let devices = shared.get(informers);
    if (devices === undefined) shared.set(informers, (devices = new Devices(informers, client, clock)));
    return devices;
  }

  readonly claims: AssumeCache<ResourceClaim>;
  readonly writer: ClaimWriter;
  readonly extended: ExtendedResources;
  readonly #slices: Informer<ResourceSlice>;
  readonly #classes: Informer<DeviceClass>;
  readonly #clock: Clock;
  readonly #use = new DeviceUse();
  /** Allocations that are decided and not written yet, by claim. */
  readonly #inFlight = new Map<string, AllocationResult>();
  /** Claims that were just made and are not heard of yet, to what stands for them in flight. */
  readonly #unheard = new Map<string, ResourceClaim>();
  #pools: DevicePools | undefined;

  private constructor(informers: Informers, client: Client, clock: Clock) {
    this.claims = new AssumeCache(informers.of(resourceClaims));
    this.#slices = informers.of(resourceSlices);
    this.#classes = informers.of(deviceClasses);
    this.#clock = clock;
    this.writer = new ClaimWriter({ claims: this.claims, client, clock });
    this.extended = new ExtendedResources(this.#classes);
    this.claims.informer.addIndex(extendedByPod, podOf);
    this.claims.onChange((before, now) => {
      this.#use.changed(before, now);
      if (now === undefined || now.status?.allocation !== undefined) this.#heard((now ?? before) as ResourceClaim);
    });
    const outdated = () => {
      this.#pools = undefined;
    };
    this.#slices.on({ added: outdated, updated: outdated, deleted: outdated });
  }

  async ready(signal: AbortSignal): Promise<void> {
    await Promise.all([this.claims.informer, this.#slices, this.#classes].map((informer) => informer.whenSynced(signal)));
  }

  readonly claim = (key: string): ResourceClaim | undefined => this.claims.get(key);
  /** The claim that was made for the extended resources of a pod. */
  extendedOf(pod: Pod): ResourceClaim | undefined {
    return this.claims.byIndex(extendedByPod, pod.metadata?.uid ?? '')[0];
  }
  readonly class = (name: string): DeviceClass | undefined => this.#classes.get(name);

  isInFlight(claim: ResourceClaim): boolean {
    return this.#inFlight.has(objectKey(claim));
  }
  take(claim: ResourceClaim, allocation: AllocationResult): void {
    this.#inFlight.set(objectKey(claim), allocation);
    this.#use.give(allocation, 1);
  }
  /** Takes back what was decided; what has been written meanwhile counts by itself. */
  drop(claim: ResourceClaim): void {
    const key = objectKey(claim);
    this.#use.give(this.#inFlight.get(key), -1);
    this.#inFlight.delete(key);
  }

  /** As `drop`, as soon as `written`, which says the same, is in the cache. */
  dropWhenHeard(claim: ResourceClaim, written: ResourceClaim): void {
    this.#unheard.set(objectKey(written), claim);
    const known = this.claims.get(objectKey(written));
    if (known?.status?.allocation !== undefined) this.#heard(known);
  }
  #heard(claim: ResourceClaim): void {
    const key = objectKey(claim);
    const before = this.#unheard.get(key);
    if (before === undefined) return;
    this.#unheard.delete(key);
    this.drop(before);
  }

  /**
   * How many devices a node has for an extended resource, and how many of them are given away; undefined when no class stands for it. What is wrong with the
   * selector of a class is told where its devices are given, not here.
   */
  countOn(resource: string, node: Node): { readonly has: number; readonly used: number } | undefined {
    const name = this.extended.classOf(resource);
    const chosen = name === undefined ? undefined : this.class(name);
    if (chosen === undefined) return undefined;
    this.#pools ??= new DevicePools(this.#slices.list());
    let [has, used] = [0, 0];
    for (const { offers } of this.#pools.on(node))
      for (const { id, device, driver } of offers) {
        if (!isSelected(chosen, device, driver)) continue;
        has++;
        if (this.#use.isUsed(id)) used++;
      }
    return { has, used };
  }

  /** What each of the claims would get on a node; undefined when they cannot all have what they ask for. @throws Error for what is wrong with a selector, or when time is up */
  allocate(claims: readonly ResourceClaim[], node: Node, timeoutMs: number): readonly AllocationResult[] | undefined {
    this.#pools ??= new DevicePools(this.#slices.list());
    const pools = this.#pools.on(node);
    const isUsed = (id: string) => this.#use.isUsed(id);
    const until = timeoutMs === 0 ? Number.POSITIVE_INFINITY : this.#clock.monotonic() + timeoutMs;
    const { shares } = this.#use;
    const counters = new CounterUse(pools, (id) => isUsed(id) || shares.has(id));
    const isLate = () => this.#clock.monotonic() > until;
    return new Allocator({ node, pools, counters, isUsed, shares, classes: this.class, isLate }).allocate(claims);
  }
}

function isSelected({ metadata, spec }: DeviceClass, device: Device, driver: string): boolean {
  try {
    return selects(spec.selectors ?? [], device, driver, `class ${metadata?.name ?? ''}`);
  } catch {
    return false;
  }
}
