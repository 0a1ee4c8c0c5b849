import { objectKey } from '@oarlock/api/object';
import { pods, resourceClaims } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { AllocationResult, ResourceClaim } from '@oarlock/api/types/resource-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';
import type { Client } from '@oarlock/spi/client';
import type { BindContext } from '@oarlock/spi/scheduling';
import type { AssumeCache } from '../../../cache/assume-cache.ts';
import { withGenerateName, type ExtendedResourceClaim } from '../extended-resources.ts';
import { bindingFailure, hasBindingConditions, isReadyForBinding } from './binding-conditions.ts';
import { claimNotFound, isReservedFor } from './pod-claims.ts';

const finalizer = 'resource.kubernetes.io/delete-protection';
const typed = { apiVersion: 'resource.k8s.io/v1', kind: 'ResourceClaim' } as const;
const maxAttempts = 5;

interface ClaimWriterOptions {
  readonly claims: AssumeCache<ResourceClaim>;
  readonly client: Client;
  readonly clock: Clock;
}

const nameOf = ({ metadata }: ResourceClaim) => ({ namespace: metadata?.namespace ?? '', name: metadata?.name ?? '' });

/** The pod that a claim is reserved for, and the context of its binding. */
export interface ClaimReservation {
  readonly allocation: AllocationResult | undefined;
  readonly pod: Pod;
  readonly context: BindContext;
}

/** The claim statuses of a pod, and the context of its binding. */
export interface ClaimStatusWrite {
  readonly claim: ResourceClaim;
  readonly mappings: ExtendedResourceClaim['mappings'];
  readonly context: BindContext;
}

/** Runs a request. Prefixes the message of an error with `what`. */
async function describingErrors<T>(what: string, request: () => Promise<T>): Promise<T> {
  try {
    return await request();
  } catch (error) {
    throw new Error(`${what}: ${errorText(error)}`, { cause: error });
  }
}

/** Writes allocations and reservations of claims. */
export class ClaimWriter {
  readonly #options: ClaimWriterOptions;
  readonly #checks = new Set<() => void>();

  constructor(options: ClaimWriterOptions) {
    this.#options = options;
    options.claims.onChange(() => {
      for (const check of [...this.#checks]) check();
    });
  }

  /**
   * Reserves a claim for a pod, and writes the claim's allocation if given.
   * @throws Error with a StatusError as its cause if the API server rejects a write; Error if the claim was changed in a conflicting way
   */
  async reserve(claim: ResourceClaim, { allocation, pod, context: { spanContext, signal } }: ClaimReservation): Promise<ResourceClaim> {
    const client = this.#options.client.withSpanContext(spanContext);
    let current = claim;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#write(current, allocation, { pod, client, signal });
      } catch (error) {
        if (!isStatus((error as Error).cause, 'Conflict') || attempt === maxAttempts) throw error;
        current = await describingErrors(`get updated claim ${objectKey(claim)} after conflict`, () =>
          client.get(resourceClaims, nameOf(claim), { signal }),
        );
        if (current.metadata?.uid !== claim.metadata?.uid) throw new Error(`claim ${objectKey(claim)} was replaced`, { cause: error });
      }
    }
  }

  async #write(
    claim: ResourceClaim,
    allocation: AllocationResult | undefined,
    { pod, client, signal }: { readonly pod: Pod; readonly client: Client; readonly signal: AbortSignal },
  ): Promise<ResourceClaim> {
    if (claim.metadata?.deletionTimestamp !== undefined) throw new Error(`claim ${objectKey(claim)} got deleted in the meantime`);
    if (allocation !== undefined && claim.status?.allocation !== undefined)
      throw new Error(`claim ${objectKey(claim)} got allocated elsewhere in the meantime`);
    if (allocation === undefined && claim.status?.allocation === undefined)
      throw new Error(`claim ${objectKey(claim)} got deallocated elsewhere in the meantime`);
    let current = claim;
    // the finalizer must precede the allocation: it prevents the deletion of an allocated claim
    if (allocation !== undefined && !claim.metadata?.finalizers?.includes(finalizer))
      current = await describingErrors(`add finalizer to claim ${objectKey(claim)}`, () =>
        client.update(
          resourceClaims,
          { ...typed, ...claim, metadata: { ...claim.metadata, finalizers: [...(claim.metadata?.finalizers ?? []), finalizer] } },
          { signal },
        ),
      );
    const { name = '', uid = '' } = pod.metadata ?? {};
    const allocated = allocation ?? current.status?.allocation;
    const newAllocation = allocated && { allocationTimestamp: formatTime(this.#options.clock.now()), ...allocated };
    const reservedFor = [...(current.status?.reservedFor ?? []), ...(isReservedFor(current, pod) ? [] : [{ resource: 'pods', name, uid }])];
    const status = { ...current.status, ...(newAllocation && { allocation: newAllocation }), reservedFor };
    const added = allocation === undefined ? 'reservation' : 'allocation and reservation';
    const updated = await describingErrors(`add ${added} to claim ${objectKey(current)}`, () =>
      client.update(resourceClaims, { ...typed, ...current, status }, { subresource: 'status', signal }),
    );
    this.#options.claims.assume(updated);
    return updated;
  }

  /**
   * Removes a pod's reservation from a claim. If `deallocate` is true and no reservation is left, also removes the allocation.
   * @throws StatusError, for example Conflict if the claim was changed; the next attempt of the pod retries
   */
  async release(claim: ResourceClaim, pod: Pod | undefined, deallocate: boolean): Promise<void> {
    const { client, claims } = this.#options;
    const { allocation, reservedFor = [], devices, ...rest } = claim.status ?? {};
    const remaining = reservedFor.filter(({ uid }) => uid !== pod?.metadata?.uid);
    const keepAllocation = !deallocate || remaining.length > 0;
    const status = {
      ...rest,
      ...(keepAllocation && allocation && { allocation }),
      ...(keepAllocation && devices && { devices }),
      ...(remaining.length > 0 && { reservedFor: remaining }),
    };
    claims.assume(await client.update(resourceClaims, { ...typed, ...claim, status }, { subresource: 'status' }));
  }

  /** Creates the claim for the extended resources of a pod. @throws Error if the API server rejects the claim */
  create(claim: ResourceClaim, pod: Pod, { spanContext, signal }: BindContext): Promise<ResourceClaim> {
    const client = this.#options.client.withSpanContext(spanContext);
    return describingErrors(`create claim for extended resources ${claim.metadata?.namespace}/`, () =>
      client.create(resourceClaims, withGenerateName(claim, pod), { signal }),
    );
  }

  /** Writes the name of the claim for extended resources, and its request mappings, to the pod's status. @throws Error if the write fails */
  async writePodStatus(pod: Pod, { claim, mappings, context: { spanContext, signal } }: ClaimStatusWrite): Promise<void> {
    const { namespace = '', name = '', uid } = pod.metadata ?? {};
    const extendedResourceClaimStatus = { resourceClaimName: claim.metadata?.name ?? '', requestMappings: mappings };
    const patch = { metadata: { uid }, status: { extendedResourceClaimStatus } };
    const client = this.#options.client.withSpanContext(spanContext);
    await describingErrors(`update pod ${namespace}/${name} ExtendedResourceClaimStatus`, () =>
      client.patch(pods, { namespace, name }, 'merge', patch, { subresource: 'status', signal }),
    );
  }

  /** Deletes the claim for extended resources. Ignores NotFound. @throws StatusError if the deletion fails for another reason */
  async remove(claim: ResourceClaim): Promise<void> {
    const { client } = this.#options;
    const { uid = '' } = claim.metadata ?? {};
    try {
      const current = await client.get(resourceClaims, nameOf(claim));
      if (current.metadata?.uid !== uid) return;
      const finalizers = (current.metadata.finalizers ?? []).filter((each) => each !== finalizer);
      if (finalizers.length < (current.metadata.finalizers?.length ?? 0))
        await client.update(resourceClaims, { ...typed, ...current, metadata: { ...current.metadata, finalizers } });
      await client.delete(resourceClaims, nameOf(claim), { preconditions: { uid } });
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
    }
  }

  /**
   * Waits until the binding conditions of all devices are true (KEP-5007). Resolves with undefined then, or with a message if a binding failure
   * condition is true or the timeout expires.
   */
  whenReady(claims: readonly ResourceClaim[], timeoutMs: number, signal: AbortSignal): Promise<string | undefined> {
    const keys = claims.filter(hasBindingConditions).map(objectKey);
    const state = () => {
      for (const key of keys) {
        const claim = this.#options.claims.get(key);
        const failure = claim === undefined ? claimNotFound(key.slice(key.indexOf('/') + 1)) : bindingFailure(claim);
        if (failure !== undefined) return failure;
        if (claim !== undefined && !isReadyForBinding(claim)) return 'waiting';
      }
      return undefined;
    };
    const first = state();
    if (first !== 'waiting') return Promise.resolve(first);
    return new Promise((resolve) => {
      const end = (problem: string | undefined) => {
        timer.cancel();
        signal.removeEventListener('abort', stop);
        this.#checks.delete(check);
        resolve(problem);
      };
      const check = () => {
        const now = state();
        if (now !== 'waiting') end(now);
      };
      const stop = () => end('the scheduler is stopping');
      const timer = this.#options.clock.after(timeoutMs, () => end('device binding timeout'));
      signal.addEventListener('abort', stop, { once: true });
      this.#checks.add(check);
    });
  }
}
