import { objectKey } from '@oarlock/api/object';
import { pods, resourceClaims } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { AllocationResult, ResourceClaim } from '@oarlock/api/types/resource-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Client } from '@oarlock/spi/client';
import type { BindContext } from '@oarlock/spi/scheduling';
import type { AssumeCache } from '../../assume-cache.ts';
import { unnamed, type ExtendedClaim } from './extended-resources.ts';
import { isReservedFor } from './pod-claims.ts';

const finalizer = 'resource.kubernetes.io/delete-protection';
const typed = { apiVersion: 'resource.k8s.io/v1', kind: 'ResourceClaim' } as const;
const tries = 5;

interface Parts {
  readonly claims: AssumeCache<ResourceClaim>;
  readonly client: Client;
  readonly clock: Clock;
}

const nameOf = ({ metadata }: ResourceClaim) => ({ namespace: metadata?.namespace ?? '', name: metadata?.name ?? '' });
const needsReadiness = (allocation: AllocationResult) =>
  allocation.devices?.results?.some(({ bindingConditions }) => (bindingConditions?.length ?? 0) > 0) === true;

/** Writes who has which devices, and for whom a claim is reserved. */
export class ClaimWriter {
  readonly #parts: Parts;
  readonly #looks = new Set<() => void>();

  constructor(parts: Parts) {
    this.#parts = parts;
    parts.claims.onChange(() => {
      for (const look of [...this.#looks]) look();
    });
  }

  /** Reserves a claim for a pod, with the allocation when it has none yet. @throws StatusError, or Error when another allocation is there */
  async reserve(
    claim: ResourceClaim,
    allocation: AllocationResult | undefined,
    pod: Pod,
    { cause, signal }: BindContext,
  ): Promise<ResourceClaim> {
    const client = this.#parts.client.causedBy(cause);
    let current = claim;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#write(current, allocation, pod, client, signal);
      } catch (error) {
        if (!isStatus(error, 'Conflict') || attempt === tries) throw error;
        current = await client.get(resourceClaims, nameOf(claim), { signal });
        if (current.metadata?.uid !== claim.metadata?.uid) throw new Error(`claim ${objectKey(claim)} was replaced`, { cause: error });
      }
    }
  }

  async #write(
    claim: ResourceClaim,
    allocation: AllocationResult | undefined,
    pod: Pod,
    client: Client,
    signal: AbortSignal,
  ): Promise<ResourceClaim> {
    if (claim.metadata?.deletionTimestamp !== undefined) throw new Error(`claim ${objectKey(claim)} got deleted in the meantime`);
    if (allocation !== undefined && claim.status?.allocation !== undefined)
      throw new Error(`claim ${objectKey(claim)} got allocated elsewhere in the meantime`);
    if (allocation === undefined && claim.status?.allocation === undefined)
      throw new Error(`claim ${objectKey(claim)} got deallocated elsewhere in the meantime`);
    let current = claim;
    // before anything is allocated: what holds the claim until it is free again
    if (allocation !== undefined && !claim.metadata?.finalizers?.includes(finalizer))
      current = await client.update(
        resourceClaims,
        { ...typed, ...claim, metadata: { ...claim.metadata, finalizers: [...(claim.metadata?.finalizers ?? []), finalizer] } },
        { signal },
      );
    const { name = '', uid = '' } = pod.metadata ?? {};
    const given =
      allocation === undefined || !needsReadiness(allocation)
        ? allocation
        : { ...allocation, allocationTimestamp: formatTime(this.#parts.clock.now()) };
    const written = await client.update(
      resourceClaims,
      {
        ...typed,
        ...current,
        status: {
          ...current.status,
          ...(given && { allocation: given }),
          reservedFor: [...(current.status?.reservedFor ?? []), ...(isReservedFor(current, pod) ? [] : [{ resource: 'pods', name, uid }])],
        },
      },
      { subresource: 'status', signal },
    );
    this.#parts.claims.assume(written);
    return written;
  }

  /** Takes a pod's reservation back, and with `free` what was allocated. In vain when somebody else has changed the claim: it is tried when the pod is. */
  async release(claim: ResourceClaim, pod: Pod | undefined, free: boolean): Promise<void> {
    const { client, claims } = this.#parts;
    const { allocation, reservedFor = [], devices, ...rest } = claim.status ?? {};
    const left = reservedFor.filter(({ uid }) => uid !== pod?.metadata?.uid);
    const kept = !free || left.length > 0;
    const status = {
      ...rest,
      ...(kept && allocation && { allocation }),
      ...(kept && devices && { devices }),
      ...(left.length > 0 && { reservedFor: left }),
    };
    claims.assume(await client.update(resourceClaims, { ...typed, ...claim, status }, { subresource: 'status' }));
  }

  /** Makes the claim for the extended resources of a pod. @throws StatusError */
  make(claim: ResourceClaim, pod: Pod, { cause, signal }: BindContext): Promise<ResourceClaim> {
    return this.#parts.client.causedBy(cause).create(resourceClaims, unnamed(claim, pod), { signal });
  }

  /** Says on a pod which claim is for its extended resources, and how. @throws StatusError */
  async tell(pod: Pod, claim: ResourceClaim, mappings: ExtendedClaim['mappings'], { cause, signal }: BindContext): Promise<void> {
    const { namespace = '', name = '', uid } = pod.metadata ?? {};
    const extendedResourceClaimStatus = { resourceClaimName: claim.metadata?.name ?? '', requestMappings: mappings };
    const patch = { metadata: { uid }, status: { extendedResourceClaimStatus } };
    await this.#parts.client.causedBy(cause).patch(pods, { namespace, name }, 'merge', patch, { subresource: 'status', signal });
  }

  /** Takes such a claim away, with what it holds. A claim that is gone already is no fault. @throws StatusError */
  async remove(claim: ResourceClaim): Promise<void> {
    const { client } = this.#parts;
    const { uid = '' } = claim.metadata ?? {};
    try {
      const now = await client.get(resourceClaims, nameOf(claim));
      if (now.metadata?.uid !== uid) return;
      const kept = (now.metadata.finalizers ?? []).filter((each) => each !== finalizer);
      if (kept.length < (now.metadata.finalizers?.length ?? 0))
        await client.update(resourceClaims, { ...typed, ...now, metadata: { ...now.metadata, finalizers: kept } });
      await client.delete(resourceClaims, nameOf(claim), { preconditions: { uid } });
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
    }
  }

  /** Until all devices of the claims are ready to be bound to (KEP-5007); or what has failed. */
  ready(claims: readonly ResourceClaim[], timeoutMs: number, signal: AbortSignal): Promise<string | undefined> {
    const keys = claims.filter(({ status }) => status?.allocation && needsReadiness(status.allocation)).map(objectKey);
    const state = () => {
      for (const key of keys) {
        const problem = readiness(this.#parts.claims.get(key));
        if (problem !== undefined) return problem;
      }
      return undefined;
    };
    const first = state();
    if (first !== 'waiting') return Promise.resolve(first);
    return new Promise((resolve) => {
      const end = (problem: string | undefined) => {
        timer.cancel();
        signal.removeEventListener('abort', stop);
        this.#looks.delete(look);
        resolve(problem);
      };
      const look = () => {
        const now = state();
        if (now !== 'waiting') end(now);
      };
      const stop = () => end('the scheduler is stopping');
      const timer = this.#parts.clock.after(timeoutMs, () => end('device binding timeout'));
      signal.addEventListener('abort', stop, { once: true });
      this.#looks.add(look);
    });
  }
}

function readiness(claim: ResourceClaim | undefined): 'waiting' | string | undefined {
  const allocation = claim?.status?.allocation;
  if (allocation === undefined) return 'a claim lost its allocation while its devices were made ready';
  let waiting = false;
  for (const { driver, pool, device, bindingConditions = [], bindingFailureConditions = [] } of allocation.devices?.results ?? []) {
    if (bindingConditions.length === 0) continue;
    const status = claim?.status?.devices?.find((each) => each.driver === driver && each.pool === pool && each.device === device);
    const isTrue = (type: string) => status?.conditions?.some((each) => each.type === type && each.status === 'True') === true;
    const failure = bindingFailureConditions.find(isTrue);
    if (failure !== undefined)
      return `claim ${claim?.metadata?.name} binding failed: condition ${failure} of device ${driver}/${pool}/${device}`;
    waiting ||= !bindingConditions.every(isTrue);
  }
  return waiting ? 'waiting' : undefined;
}
