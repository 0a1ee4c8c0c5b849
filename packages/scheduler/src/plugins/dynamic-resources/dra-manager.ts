import { controllerOf, objectKey } from '@oarlock/api/object';
import { deviceClasses, resourceClaims, resourceSlices } from '@oarlock/api/resources';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import type { AllocationResult, Device, DeviceClass, ResourceClaim, ResourceSlice } from '@oarlock/api/types/resource-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Client, Informer, Informers } from '@oarlock/spi/client';
import { AssumeCache } from '../../cache/assume-cache.ts';
import { Allocator } from './internal/allocator.ts';
import { ClaimWriter } from './internal/claim-writer.ts';
import { DevicePools } from './internal/device-pools.ts';
import { matchesSelectors } from './internal/device-selector.ts';
import { SharedCounters, AllocatedDevices } from './internal/allocated-devices.ts';
import { ExtendedResourceCache, isExtendedResourceClaim } from './extended-resources.ts';

const extendedByPod = 'extended-claims-by-pod';
const ownerOf = (claim: ResourceClaim) => (isExtendedResourceClaim(claim) ? [controllerOf(claim)?.uid ?? ''] : []);

const managers = new WeakMap<Informers, DRAManager>();

/** The devices of the cluster and their allocations, including allocations that are not written yet. */
export class DRAManager {
  /** Returns one instance per set of informers, because all plugins of a scheduler must share the in-flight allocations. */
  static shared(informers: Informers, client: Client, clock: Clock): DRAManager {
    let manager = managers.get(informers);
    if (manager === undefined) managers.set(informers, (manager = new DRAManager(informers, client, clock)));
    return manager;
  }

  readonly claims: AssumeCache<ResourceClaim>;
  readonly writer: ClaimWriter;
  readonly extendedResources: ExtendedResourceCache;
  readonly #slices: Informer<ResourceSlice>;
  readonly #classes: Informer<DeviceClass>;
  readonly #clock: Clock;
  readonly #allocatedDevices = new AllocatedDevices();
  /** Allocations that are not written yet, by claim key. They are not in the assume cache, because any update of a claim would drop them there. */
  readonly #inFlightAllocations = new Map<string, AllocationResult>();
  /** In-memory claims for extended resources, by the key of the written claim. A claim is kept until the informer observes the written claim. */
  readonly #unconfirmed = new Map<string, ResourceClaim>();
  #pools: DevicePools | undefined;

  private constructor(informers: Informers, client: Client, clock: Clock) {
    this.claims = new AssumeCache(informers.forResource(resourceClaims));
    this.#slices = informers.forResource(resourceSlices);
    this.#classes = informers.forResource(deviceClasses);
    this.#clock = clock;
    this.writer = new ClaimWriter({ claims: this.claims, client, clock });
    this.extendedResources = new ExtendedResourceCache(this.#classes);
    this.claims.informer.addIndexer(extendedByPod, ownerOf);
    this.claims.onChange((before, now) => {
      this.#allocatedDevices.claimChanged(before, now);
      if (now === undefined || now.status?.allocation !== undefined) this.#confirm((now ?? before) as ResourceClaim);
    });
    const invalidatePools = () => {
      this.#pools = undefined;
    };
    this.#slices.addEventHandler({ onAdd: invalidatePools, onUpdate: invalidatePools, onDelete: invalidatePools });
  }

  async whenSynced(signal: AbortSignal): Promise<void> {
    await Promise.all([this.claims.informer, this.#slices, this.#classes].map((informer) => informer.whenSynced(signal)));
  }

  readonly claim = (key: string): ResourceClaim | undefined => this.claims.get(key);
  /** Returns the claim that was created for the extended resources of a pod, or undefined. */
  extendedResourceClaim(pod: Pod): ResourceClaim | undefined {
    return this.claims.byIndex(extendedByPod, pod.metadata?.uid ?? '')[0];
  }
  readonly class = (name: string): DeviceClass | undefined => this.#classes.get(name);

  claimHasPendingAllocation(claim: ResourceClaim): boolean {
    return this.#inFlightAllocations.has(objectKey(claim));
  }
  signalClaimPendingAllocation(claim: ResourceClaim, allocation: AllocationResult): void {
    this.#inFlightAllocations.set(objectKey(claim), allocation);
    this.#allocatedDevices.adjust(allocation, 1);
  }
  /** Drops an in-flight allocation. Once the allocation is written, the claim itself contains it. */
  removeClaimPendingAllocation(claim: ResourceClaim): void {
    const key = objectKey(claim);
    this.#allocatedDevices.adjust(this.#inFlightAllocations.get(key), -1);
    this.#inFlightAllocations.delete(key);
  }

  /** Drops the in-flight allocation of `claim` as soon as the cache contains the allocation of the written claim. */
  removePendingAllocationWhenSynced(claim: ResourceClaim, updated: ResourceClaim): void {
    this.#unconfirmed.set(objectKey(updated), claim);
    const known = this.claims.get(objectKey(updated));
    if (known?.status?.allocation !== undefined) this.#confirm(known);
  }
  #confirm(claim: ResourceClaim): void {
    const key = objectKey(claim);
    const before = this.#unconfirmed.get(key);
    if (before === undefined) return;
    this.#unconfirmed.delete(key);
    this.removeClaimPendingAllocation(before);
  }

  /**
   * Returns the number of devices of a node for an extended resource, and the number of allocated ones. Returns undefined if no DeviceClass backs the
   * resource. Ignores errors in the selectors of the DeviceClass, which `allocate` reports.
   */
  countDevices(resource: string, node: Node): { readonly has: number; readonly used: number } | undefined {
    const name = this.extendedResources.classOf(resource);
    const deviceClass = name === undefined ? undefined : this.class(name);
    if (deviceClass === undefined) return undefined;
    this.#pools ??= new DevicePools(this.#slices.list());
    let [has, used] = [0, 0];
    for (const { devices } of this.#pools.poolsForNode(node))
      for (const { id, device, driver } of devices) {
        if (!isSelected(deviceClass, device, driver)) continue;
        has++;
        if (this.#allocatedDevices.isAllocated(id)) used++;
      }
    return { has, used };
  }

  /**
   * Returns the allocation of each claim on a node, or the reason why the node cannot satisfy all claims.
   * @throws Error as {@link Allocator.allocate}; AllocationTimeout if the allocation takes longer than `timeoutMs` (0: unlimited)
   */
  allocate(claims: readonly ResourceClaim[], node: Node, timeoutMs: number): readonly AllocationResult[] | string {
    this.#pools ??= new DevicePools(this.#slices.list());
    const pools = this.#pools.poolsForNode(node);
    const isAllocated = (id: string) => this.#allocatedDevices.isAllocated(id);
    const deadline = timeoutMs === 0 ? Number.POSITIVE_INFINITY : this.#clock.monotonic() + timeoutMs;
    const { shares } = this.#allocatedDevices;
    const counters = new SharedCounters(pools, (id) => isAllocated(id) || shares.has(id));
    const isTimedOut = () => this.#clock.monotonic() > deadline;
    const allocator = new Allocator({ node, pools, counters, isAllocated, shares, classes: this.class, isTimedOut });
    const isInvalid = pools.some(({ invalid }) => invalid !== undefined);
    return allocator.allocate(claims) ?? (isInvalid ? 'invalid resource pools were encountered' : 'cannot allocate all claims');
  }
}

function isSelected({ metadata, spec }: DeviceClass, device: Device, driver: string): boolean {
  try {
    return matchesSelectors(spec.selectors ?? [], device, driver, `class ${metadata?.name ?? ''}`);
  } catch {
    return false;
  }
}
