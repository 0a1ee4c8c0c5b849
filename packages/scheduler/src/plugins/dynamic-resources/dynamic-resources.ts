import { matchesNodeSelector } from '@oarlock/api/component-helpers/node-affinity';
import { isControlledBy, objectKey } from '@oarlock/api/object';
import { resourceClaims } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { durationMs } from '@oarlock/api/values/duration';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { AllocationResult, ResourceClaim } from '@oarlock/api/types/resource-v1';
import type { Clock } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';
import type { Logger } from '@oarlock/primitives/logger';
import { Client, Events, Informers } from '@oarlock/spi/client';
import {
  errorStatus,
  Scheduling,
  skip,
  success,
  unschedulableAndUnresolvable,
  unschedulable,
  type BindContext,
  type ClusterEventWithHint,
  type CycleState,
  type NodeInfo,
  type PodInfo,
  type SchedulingPlugin,
  type Status,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { withConfigurableArgs } from '../helper/plugin-args.ts';
import { isResourceServed } from '../../framework/resource-served.ts';
import { defaultNormalizeScore } from '../helper/normalize-score.ts';
import { EventRecorders } from '../helper/event-recorders.ts';
import { nodeEvent } from '../helper/node-events.ts';
import { AllocationTimeout } from './internal/allocator.ts';
import { bindingFailure, hasBindingConditions, isBindingTimedOut } from './internal/binding-conditions.ts';
import { missingDeviceClass } from './internal/request-data.ts';
import { DRAManager } from './dra-manager.ts';
import { buildExtendedResourceClaim, type ExtendedResourceClaim } from './extended-resources.ts';
import { canBeReserved, claimNamesOf, claimsOf, isReservedFor, usesClaims } from './internal/pod-claims.ts';

const duration = (fallback: string) =>
  z
    .string()
    .regex(/^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$|^0$/, 'a duration such as 10s')
    .default(fallback);

const args = z.strictObject({
  /** Maximum time of an allocation attempt on one node; 0 means unlimited. */
  filterTimeout: duration('10s'),
  /** Maximum time to wait in preBind until the devices are ready. */
  bindingTimeout: duration('600s'),
});
type Args = z.output<typeof args>;

/** The allocation of a claim on a node. */
interface ClaimAllocation {
  readonly claim: ResourceClaim;
  readonly allocation: AllocationResult;
}
/** The extended resources of a pod that DeviceClasses back (KEP-5004). */
interface ExtendedResourceState {
  readonly names: readonly string[];
  /** The claim of a failed earlier attempt. The claim may be outdated and must be deleted first. */
  readonly staleClaim: ResourceClaim | undefined;
  /** The claim for extended resources, by the names of the resources that a node provides through devices. */
  readonly claimsByNames: Map<string, ExtendedResourceClaim>;
  readonly claimByNode: Map<string, ExtendedResourceClaim>;
  writtenClaim: ResourceClaim | undefined;
}
interface PreFilterState {
  readonly claims: readonly ResourceClaim[];
  /** The claims of the pod that have no allocation. */
  readonly unallocated: readonly ResourceClaim[];
  readonly extended: ExtendedResourceState | undefined;
  readonly allocationsByNode: Map<string, readonly ClaimAllocation[]>;
  /** Keys of allocated claims whose devices are not available on at least one node. */
  readonly unavailableClaims: Set<string>;
}
const preFilterKey = Symbol('DynamicResources');

/** Maximum number of alternatives in a request, as the API limits it. */
const maxAlternatives = 8;
const hasAlternatives = ({ spec }: ResourceClaim) => spec.devices?.requests?.some(({ exactly }) => exactly === undefined) === true;

/** Returns a score for the chosen alternatives of requests: earlier alternatives score higher (KEP-4816). */
function scoreAllocation({ claim, allocation }: ClaimAllocation): number {
  const allocatedRequests = new Set(allocation.devices?.results?.map(({ request }) => request));
  let score = 0;
  for (const { name, firstAvailable = [] } of claim.spec.devices?.requests ?? [])
    for (const [index, each] of firstAvailable.entries())
      if (allocatedRequests.has(`${name}/${each.name}`)) score += maxAlternatives - index;
  return score;
}

const eventsToRegister: readonly ClusterEventWithHint[] = [
  {
    kind: 'ResourceClaim',
    actions: ['added', 'updated', 'deleted'],
    queueingHint(pod, old, now) {
      const claim = (now ?? old) as ResourceClaim;
      if (claim.metadata?.namespace === pod.metadata?.namespace && claimNamesOf(pod).includes(claim.metadata?.name ?? '')) return 'queue';
      if (isControlledBy(claim, pod) && now === undefined) return 'queue';
      const wasAllocated = (old as ResourceClaim | undefined)?.status?.allocation !== undefined;
      return wasAllocated && (now as ResourceClaim | undefined)?.status?.allocation === undefined ? 'queue' : 'skip';
    },
  },
  { kind: 'Pod', actions: ['updated'] },
  { kind: 'AssignedPod', actions: ['deleted'], queueingHint: (_pod, old) => (usesClaims(old as Pod) ? 'queue' : 'skip') },
  { kind: 'ResourceSlice', actions: ['added', 'updated', 'deleted'] },
  { kind: 'DeviceClass', actions: ['added', 'updated'] },
  nodeEvent(['labels', 'allocatable']),
];

interface DynamicResourcesOptions {
  readonly client: Client;
  readonly informers: Informers;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorders: EventRecorders;
}

/** Allocates the devices of ResourceClaims (structured parameters, KEP-4381). Does nothing if the API server does not serve ResourceClaims. */
class DynamicResources {
  readonly #options: DynamicResourcesOptions;
  #manager: DRAManager | undefined;

  constructor(options: DynamicResourcesOptions) {
    this.#options = options;
  }

  withArgs({ filterTimeout, bindingTimeout }: Args): SchedulingPlugin {
    const filterTimeoutMs = durationMs(filterTimeout);
    const bindingTimeoutMs = durationMs(bindingTimeout);
    return {
      name: 'DynamicResources',
      eventsToRegister,
      whenSynced: (signal) => this.#whenSynced(signal),
      preEnqueue: (pod) => this.#preEnqueue(pod),
      preFilter: (state, pod) => this.#preFilter(state, pod),
      filter: (state, pod, node) => this.#filter(state, { podInfo: pod, node, filterTimeoutMs, bindingTimeoutMs }),
      postFilter: (state, pod) => this.#postFilter(state, pod),
      preScore: (state) => (state.read<PreFilterState>(preFilterKey)?.unallocated.some(hasAlternatives) ? success : skip),
      score: (state, _pod, { name }) => {
        const allocations = state.read<PreFilterState>(preFilterKey)?.allocationsByNode.get(name) ?? [];
        return allocations.reduce((sum, allocation) => sum + scoreAllocation(allocation), 0);
      },
      normalizeScore: (_state, _pod, _nodes, scores) => defaultNormalizeScore(scores, false),
      reserve: (state, _pod, node) => this.#reserve(state, node),
      unreserve: (state, pod, node) => this.#unreserve(state, pod, node),
      preBindPreFlight: (state) => {
        const { claims = [], extended } = state.read<PreFilterState>(preFilterKey) ?? {};
        return claims.length === 0 && extended === undefined ? skip : success;
      },
      preBind: (state, pod, node, context) => this.#preBind(state, pod, node, context, bindingTimeoutMs),
    };
  }

  async #whenSynced(signal: AbortSignal): Promise<void> {
    const { client, informers, clock } = this.#options;
    if (this.#manager === undefined && (await isResourceServed({ client, clock, signal }, resourceClaims)))
      this.#manager = DRAManager.shared(informers, client, clock);
    await this.#manager?.whenSynced(signal);
  }

  /** Gates a pod until all its claims exist. */
  #preEnqueue(pod: Pod): Status {
    if (this.#manager === undefined || !usesClaims(pod)) return success;
    const claims = claimsOf(pod, this.#manager.claim);
    return typeof claims === 'string' ? unschedulableAndUnresolvable(claims) : success;
  }

  #preFilter(state: CycleState, podInfo: PodInfo): Status {
    const manager = this.#manager;
    if (manager === undefined) return skip;
    const { pod } = podInfo;
    const extended = extendedResourceState(manager, podInfo);
    const claims = usesClaims(pod) ? claimsOf(pod, manager.claim) : [];
    if (typeof claims === 'string') return unschedulableAndUnresolvable(claims);
    if (claims.length === 0 && extended === undefined) return skip;
    const unallocated: ResourceClaim[] = [];
    for (const claim of claims) {
      if (claim.status?.allocation !== undefined) {
        if (!isReservedFor(claim, pod) && !canBeReserved(claim)) return unschedulableAndUnresolvable('resourceclaim in use');
        continue;
      }
      if (manager.claimHasPendingAllocation(claim))
        return unschedulableAndUnresolvable(`resource claim ${objectKey(claim)} is in the process of being allocated`);
      const missingClass = missingDeviceClass(claim, manager.class);
      if (missingClass !== undefined) return unschedulableAndUnresolvable(missingClass);
      unallocated.push(claim);
    }
    state.write<PreFilterState>(preFilterKey, {
      claims,
      unallocated,
      extended,
      allocationsByNode: new Map(),
      unavailableClaims: new Set(),
    });
    return success;
  }

  /**
   * As upstream, no rejection can be resolved by preemption: deleted pods keep their claims allocated. An error in a claim or DeviceClass ends the
   * attempt.
   */
  #filter(
    state: CycleState,
    {
      podInfo: { pod },
      node,
      filterTimeoutMs,
      bindingTimeoutMs,
    }: {
      readonly podInfo: PodInfo;
      readonly node: NodeInfo;
      readonly filterTimeoutMs: number;
      readonly bindingTimeoutMs: number;
    },
  ): Status {
    const preFilterState = state.read<PreFilterState>(preFilterKey);
    if (preFilterState === undefined || this.#manager === undefined) return success;
    const { claims, extended, unallocated, unavailableClaims, allocationsByNode } = preFilterState;
    if (extended?.staleClaim !== undefined) return unschedulableAndUnresolvable('cannot schedule extended resource claim');
    const now = this.#options.clock.now();
    const unavailable = claims.filter((claim) => {
      const nodeSelector = claim.status?.allocation?.nodeSelector;
      return (
        (nodeSelector !== undefined && !matchesNodeSelector(nodeSelector, node.node)) ||
        bindingFailure(claim) !== undefined ||
        isBindingTimedOut(claim, now, bindingTimeoutMs)
      );
    });
    if (unavailable.length > 0) {
      for (const claim of unavailable) unavailableClaims.add(objectKey(claim));
      return unschedulableAndUnresolvable('resourceclaim not available on the node');
    }
    const extendedClaim = extended && extendedClaimOn(this.#manager, { extendedResourceState: extended, pod, node });
    const toAllocate = extendedClaim === undefined ? unallocated : [...unallocated, extendedClaim.claim];
    if (toAllocate.length === 0) return success;
    try {
      const allocations = this.#manager.allocate(toAllocate, node.node, filterTimeoutMs);
      if (typeof allocations === 'string') return unschedulableAndUnresolvable(allocations);
      allocationsByNode.set(
        node.name,
        allocations.map((allocation, index) => ({ claim: toAllocate[index] as ResourceClaim, allocation })),
      );
      if (extendedClaim !== undefined) extended?.claimByNode.set(node.name, extendedClaim);
      return success;
    } catch (error) {
      return error instanceof AllocationTimeout ? unschedulableAndUnresolvable(error.message) : errorStatus(errorText(error));
    }
  }

  /** Deallocates one claim that makes nodes infeasible and that no other pod uses, or deletes a stale claim for extended resources. */
  #postFilter(state: CycleState, { pod }: PodInfo): Status {
    const { unavailableClaims = new Set<string>(), extended } = state.read<PreFilterState>(preFilterKey) ?? {};
    if (extended?.staleClaim !== undefined) {
      this.#logErrors(this.#manager?.writer.remove(extended.staleClaim), pod);
      return unschedulable('deletion of ResourceClaim completed');
    }
    if (!usesClaims(pod)) return unschedulable('no new claims to deallocate');
    for (const key of unavailableClaims) {
      const claim = this.#manager?.claim(key);
      const usedByOthers = claim?.status?.reservedFor?.some(({ uid }) => uid !== pod.metadata?.uid);
      if (claim?.status?.allocation === undefined || (usedByOthers !== false && (claim.status.reservedFor?.length ?? 0) > 0)) continue;
      this.#logErrors(this.#manager?.writer.release(claim, pod, true), pod);
      return unschedulable('deallocation of ResourceClaim completed');
    }
    return unschedulable('still not schedulable');
  }

  #reserve(state: CycleState, node: string): Status {
    const { unallocated = [], allocationsByNode } = state.read<PreFilterState>(preFilterKey) ?? {};
    const allocations = allocationsByNode?.get(node) ?? [];
    if (allocations.length < unallocated.length) return errorStatus(`claim allocation not found for node ${node}`);
    for (const { claim, allocation } of allocations) this.#manager?.signalClaimPendingAllocation(claim, allocation);
    return success;
  }

  #unreserve(state: CycleState, { pod }: PodInfo, node: string): void {
    const { claims = [], extended, allocationsByNode } = state.read<PreFilterState>(preFilterKey) ?? {};
    for (const { claim } of allocationsByNode?.get(node) ?? []) this.#manager?.removeClaimPendingAllocation(claim);
    if (extended?.writtenClaim !== undefined) this.#logErrors(this.#manager?.writer.remove(extended.writtenClaim), pod);
    for (const claim of claims) {
      const current = this.#manager?.claim(objectKey(claim));
      const wasReservedByAttempt =
        current?.metadata?.uid === claim.metadata?.uid &&
        current !== undefined &&
        isReservedFor(current, pod) &&
        !isReservedFor(claim, pod);
      if (wasReservedByAttempt) this.#logErrors(this.#manager?.writer.release(current, pod, false), pod);
    }
  }

  /** Writes the allocations and reservations of the pod's claims, and waits until the devices are ready. */
  async #preBind(state: CycleState, { pod }: PodInfo, node: string, context: BindContext, timeoutMs: number): Promise<Status> {
    const manager = this.#manager;
    const { claims = [], extended, allocationsByNode } = state.read<PreFilterState>(preFilterKey) ?? {};
    if (manager === undefined || (claims.length === 0 && extended === undefined)) return success;
    const allocations = allocationsByNode?.get(node) ?? [];
    const updatedClaims: ResourceClaim[] = [];
    for (const claim of claims) {
      const current = manager.claim(objectKey(claim)) ?? claim;
      if (claim.status?.allocation !== undefined && isReservedFor(current, pod)) continue;
      const allocation = allocations.find((each) => each.claim === claim);
      try {
        updatedClaims.push(await manager.writer.reserve(current, { allocation: allocation?.allocation, pod, context }));
      } catch (error) {
        return errorStatus(errorText(error));
      }
      if (allocation !== undefined) manager.removeClaimPendingAllocation(claim);
    }
    try {
      const extendedClaim = extended && (await createExtendedClaim(manager, { extended, allocations }, { node, pod, context }));
      if (extendedClaim !== undefined) updatedClaims.push(extendedClaim);
    } catch (error) {
      return errorStatus(errorText(error));
    }
    if (!updatedClaims.some(hasBindingConditions)) return success;
    const note = `waiting for binding conditions for device on node ${node}`;
    const recorder = this.#options.recorders.of(pod.spec?.schedulerName ?? '');
    recorder.event(pod, 'Normal', 'BindingConditionsPending', note, undefined, { name: 'Scheduling' });
    // the next attempt finds that the devices are not ready, and deallocates them
    const failure = await manager.writer.whenReady(updatedClaims, timeoutMs, context.signal);
    return failure === undefined ? success : errorStatus(failure);
  }

  /** Logs the errors of a write in the background. */
  #logErrors(write: Promise<void> | undefined, pod: Pod): void {
    write?.catch((error: unknown) => {
      if (!isStatus(error, 'NotFound', 'Conflict'))
        this.#options.log.warn({ pod: objectKey(pod), err: error }, 'failed to release a resource claim');
    });
  }
}

/** Returns the state for the pod's extended resources, or undefined if DeviceClasses back none of them. */
function extendedResourceState(manager: DRAManager, pod: PodInfo): ExtendedResourceState | undefined {
  const names = manager.extendedResources.namesIn(pod.requests);
  if (names.length === 0) return undefined;
  const staleClaim = manager.extendedResourceClaim(pod.pod);
  return { names, staleClaim, claimsByNames: new Map(), claimByNode: new Map(), writtenClaim: undefined };
}

/**
 * Returns the claim for the extended resources that a node provides through devices. Returns undefined if device plugins of the node provide all of
 * the pod's extended resources.
 */
function extendedClaimOn(
  { extendedResources }: DRAManager,
  {
    extendedResourceState: { names, claimsByNames },
    pod,
    node,
  }: { readonly extendedResourceState: ExtendedResourceState; readonly pod: Pod; readonly node: NodeInfo },
): ExtendedResourceClaim | undefined {
  const delegated = names.filter((name) => extendedResources.isDelegated(name, node));
  if (delegated.length === 0) return undefined;
  const key = delegated.join();
  let claim = claimsByNames.get(key);
  if (claim === undefined)
    claimsByNames.set(key, (claim = buildExtendedResourceClaim(pod, delegated, (name) => extendedResources.classOf(name))));
  return claim;
}

/** Creates the claim for extended resources and writes its name to the pod's status. Returns undefined if the node requires no such claim. */
async function createExtendedClaim(
  manager: DRAManager,
  { extended, allocations }: { readonly extended: ExtendedResourceState; readonly allocations: readonly ClaimAllocation[] },
  { node, pod, context }: { readonly node: string; readonly pod: Pod; readonly context: BindContext },
): Promise<ResourceClaim | undefined> {
  const extendedClaim = extended.claimByNode.get(node);
  const allocation = allocations.find(({ claim }) => claim === extendedClaim?.claim);
  if (extendedClaim === undefined || allocation === undefined) return undefined;
  extended.writtenClaim = await manager.writer.create(extendedClaim.claim, pod, context);
  extended.writtenClaim = await manager.writer.reserve(extended.writtenClaim, { allocation: allocation.allocation, pod, context });
  manager.removePendingAllocationWhenSynced(extendedClaim.claim, extended.writtenClaim);
  await manager.writer.writePodStatus(pod, { claim: extended.writtenClaim, mappings: extendedClaim.mappings, context });
  return extended.writtenClaim;
}

export const dynamicResources = Scheduling.plugin({
  id: 'scheduling-dynamic-resources',
  config: args,
  needs: { client: Client, informers: Informers, events: Events },
  create({ config, client, informers, events }, { clock, log }): SchedulingPlugin {
    const plugin = new DynamicResources({ client, informers, clock, log, recorders: new EventRecorders(events) });
    return withConfigurableArgs(args, config, (pluginArgs) => plugin.withArgs(pluginArgs));
  },
});
