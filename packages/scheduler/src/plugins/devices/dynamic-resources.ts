import { controllerOf, objectKey } from '@oarlock/api/object';
import { resourceClaims } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { durationMs } from '@oarlock/api/duration';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { AllocationResult, ResourceClaim } from '@oarlock/api/types/resource-v1';
import { Client, Informers } from '@oarlock/spi/client';
import {
  failed,
  Scheduling,
  skip,
  success,
  unresolvable,
  unschedulable,
  type BindContext,
  type NodeInfo,
  type PodInfo,
  type SchedulingPlugin,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { configurable } from '../../plugin-args.ts';
import { isServed } from '../../served.ts';
import { matchesSelector } from '../node-affinity-match.ts';
import { normalizeByMax } from '../normalize.ts';
import { onNode } from '../node-changes.ts';
import { missingClass } from './allocator.ts';
import { Devices } from './devices.ts';
import { extendedClaim, type ExtendedClaim } from './extended-resources.ts';
import { canBeReserved, claimNamesOf, claimsOf, isReservedFor, usesClaims } from './pod-claims.ts';

interface At {
  readonly node: string;
  readonly pod: Pod;
  readonly context: BindContext;
}

const duration = (fallback: string) =>
  z
    .string()
    .regex(/^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$|^0$/, 'a duration such as 10s')
    .default(fallback);

const args = z.strictObject({
  /** So long is looked for devices on one node; 0: as long as it takes. */
  filterTimeout: duration('10s'),
  /** So long a pod waits for its devices to be made ready. */
  bindingTimeout: duration('600s'),
});

/** What a claim gets on a node. */
interface Grant {
  readonly claim: ResourceClaim;
  readonly allocation: AllocationResult;
}
/** The extended resources of a pod that classes of devices stand for. */
interface Extended {
  readonly names: readonly string[];
  /** The claim of an attempt that failed. It may be outdated, and has to go first. */
  readonly stale: ResourceClaim | undefined;
  /** By the names that a node has to provide by devices. */
  readonly variants: Map<string, ExtendedClaim>;
  readonly byNode: Map<string, ExtendedClaim>;
  written: ResourceClaim | undefined;
}
interface State {
  readonly claims: readonly ResourceClaim[];
  /** Those that have no devices yet. */
  readonly open: readonly ResourceClaim[];
  readonly extended: Extended | undefined;
  readonly byNode: Map<string, readonly Grant[]>;
  /** Claims that have devices that some node cannot use. */
  readonly elsewhere: Set<string>;
}

/** As many alternatives a request can have. */
const mostAlternatives = 8;
const hasAlternatives = ({ spec }: ResourceClaim) => spec.devices?.requests?.some(({ exactly }) => exactly === undefined) === true;

/** How good the alternatives are that a claim gets, over its requests: the first one of a request counts most (KEP-4816). */
function rankOf({ claim, allocation }: Grant): number {
  const given = new Set(allocation.devices?.results?.map(({ request }) => request));
  let rank = 0;
  for (const { name, firstAvailable = [] } of claim.spec.devices?.requests ?? [])
    for (const [index, each] of firstAvailable.entries()) if (given.has(`${name}/${each.name}`)) rank += mostAlternatives - index;
  return rank;
}

/** Gives pods the devices that their ResourceClaims ask for: structured parameters (KEP-4381). */
export const dynamicResources = Scheduling.plugin({
  id: 'scheduling-dynamic-resources',
  config: args,
  needs: { client: Client, informers: Informers },
  create({ config, client, informers }, { clock, log }): SchedulingPlugin {
    /** Undefined where the server knows of no devices. */
    let devices: Devices | undefined;
    const key = Symbol('DynamicResources');
    const background = (work: Promise<void> | undefined, pod: Pod) => {
      work?.catch((error: unknown) => {
        if (!isStatus(error, 'NotFound', 'Conflict'))
          log.warn({ pod: objectKey(pod), err: error }, 'a resource claim could not be released');
      });
    };
    const extendedOf = (pod: PodInfo): Extended | undefined => {
      const names = devices?.extended.of(pod.requests) ?? [];
      if (devices === undefined || names.length === 0) return undefined;
      return { names, stale: devices.extendedOf(pod.pod), variants: new Map(), byNode: new Map(), written: undefined };
    };
    /** What a node has to provide by devices; undefined when it has device plugins for all. */
    const extendedOn = ({ names, variants }: Extended, { pod }: PodInfo, info: NodeInfo): ExtendedClaim | undefined => {
      const here = names.filter((name) => devices?.extended.isDelegated(name, info));
      if (here.length === 0) return undefined;
      const which = here.join();
      let variant = variants.get(which);
      if (variant === undefined) variants.set(which, (variant = extendedClaim(pod, here, (name) => devices?.extended.classOf(name))));
      return variant;
    };
    /** Writes the claim for extended resources, and on the pod which one it is. */
    const bindExtended = async (
      known: Devices,
      extended: Extended,
      grants: readonly Grant[],
      at: At,
    ): Promise<ResourceClaim | undefined> => {
      const wanted = extended.byNode.get(at.node);
      const grant = grants.find(({ claim }) => claim === wanted?.claim);
      if (wanted === undefined || grant === undefined) return undefined;
      extended.written = await known.writer.make(wanted.claim, at.pod, at.context);
      extended.written = await known.writer.reserve(extended.written, grant.allocation, at.pod, at.context);
      known.dropWhenHeard(wanted.claim, extended.written);
      await known.writer.tell(at.pod, extended.written, wanted.mappings, at.context);
      return extended.written;
    };
    const make = ({ filterTimeout, bindingTimeout }: z.output<typeof args>): SchedulingPlugin => ({
      name: 'DynamicResources',
      requeueOn: [
        {
          kind: 'ResourceClaim',
          on: ['added', 'updated', 'deleted'],
          hint(pod, old, now) {
            const claim = (now ?? old) as ResourceClaim;
            if (claim.metadata?.namespace === pod.metadata?.namespace && claimNamesOf(pod).includes(claim.metadata?.name ?? ''))
              return 'queue';
            if (controllerOf(claim)?.uid === pod.metadata?.uid && now === undefined) return 'queue';
            // devices that others give back
            const freed = (old as ResourceClaim | undefined)?.status?.allocation !== undefined;
            return freed && (now as ResourceClaim | undefined)?.status?.allocation === undefined ? 'queue' : 'skip';
          },
        },
        { kind: 'Pod', on: ['updated'] },
        { kind: 'AssignedPod', on: ['deleted'], hint: (_pod, old) => (usesClaims(old as Pod) ? 'queue' : 'skip') },
        { kind: 'ResourceSlice', on: ['added', 'updated', 'deleted'] },
        { kind: 'DeviceClass', on: ['added', 'updated'] },
        onNode(['labels', 'allocatable']),
      ],
      async ready(signal) {
        if (devices === undefined && (await isServed({ client, clock, signal }, resourceClaims)))
          devices = Devices.of(informers, client, clock);
        await devices?.ready(signal);
      },
      preEnqueue(pod) {
        if (devices === undefined || !usesClaims(pod)) return success;
        const found = claimsOf(pod, devices.claim);
        return typeof found === 'string' ? unresolvable(found) : success;
      },
      preFilter(state, info) {
        if (devices === undefined) return skip;
        const { pod } = info;
        const extended = extendedOf(info);
        const found = usesClaims(pod) ? claimsOf(pod, devices.claim) : [];
        if (typeof found === 'string') return unresolvable(found);
        if (found.length === 0 && extended === undefined) return skip;
        const open: ResourceClaim[] = [];
        for (const claim of found) {
          if (claim.status?.allocation !== undefined) {
            if (!isReservedFor(claim, pod) && !canBeReserved(claim)) return unresolvable('resourceclaim in use');
            continue;
          }
          if (devices.isInFlight(claim)) return unschedulable(`resource claim ${objectKey(claim)} is in the process of being allocated`);
          const missing = missingClass(claim, devices.class);
          if (missing !== undefined) return unresolvable(missing);
          open.push(claim);
        }
        state.write<State>(key, { claims: found, open, extended, byNode: new Map(), elsewhere: new Set() });
        return success;
      },
      filter(state, pod, info) {
        const kept = state.read<State>(key);
        if (kept === undefined) return success;
        const { extended } = kept;
        if (extended?.stale !== undefined) return unschedulable('cannot schedule extended resource claim');
        const away = kept.claims.filter(({ status }) => {
          const where = status?.allocation?.nodeSelector;
          return where !== undefined && !matchesSelector(info.node, where);
        });
        if (away.length > 0) {
          for (const claim of away) kept.elsewhere.add(objectKey(claim));
          return unschedulable('resourceclaim not available on the node');
        }
        const more = extended && extendedOn(extended, pod, info);
        const open = more === undefined ? kept.open : [...kept.open, more.claim];
        if (open.length === 0) return success;
        try {
          const allocations = devices?.allocate(open, info.node, durationMs(filterTimeout));
          if (allocations === undefined) return unschedulable('cannot allocate all claims');
          kept.byNode.set(
            info.name,
            allocations.map((allocation, index) => ({ claim: open[index] as ResourceClaim, allocation })),
          );
          if (more !== undefined) extended?.byNode.set(info.name, more);
          return success;
        } catch (error) {
          return unschedulable((error as Error).message);
        }
      },
      /** An allocation that keeps the pod from every node is given back, when nobody else uses it. */
      postFilter(state, { pod }) {
        const { elsewhere = new Set<string>(), extended } = state.read<State>(key) ?? {};
        if (extended?.stale !== undefined) {
          background(devices?.writer.remove(extended.stale), pod);
          return unschedulable('deletion of ResourceClaim completed');
        }
        if (!usesClaims(pod)) return unschedulable('no new claims to deallocate');
        for (const at of elsewhere) {
          const claim = devices?.claim(at);
          const others = claim?.status?.reservedFor?.some(({ uid }) => uid !== pod.metadata?.uid);
          if (claim?.status?.allocation === undefined || (others !== false && (claim.status.reservedFor?.length ?? 0) > 0)) continue;
          background(devices?.writer.release(claim, pod, true), pod);
          return unschedulable('deallocation of ResourceClaim completed');
        }
        return unschedulable('still not schedulable');
      },
      /** The better the alternatives that its requests would get. */
      preScore: (state) => (state.read<State>(key)?.open.some(hasAlternatives) ? success : skip),
      score(state, _pod, { name }) {
        const grants = state.read<State>(key)?.byNode.get(name) ?? [];
        return grants.reduce((sum, grant) => sum + rankOf(grant), 0);
      },
      normalize: (_state, _pod, _nodes, scores) => normalizeByMax(scores, false),
      reserve(state, _pod, node) {
        const { open = [], byNode } = state.read<State>(key) ?? {};
        const grants = byNode?.get(node) ?? [];
        if (grants.length < open.length) return failed(`claim allocation not found for node ${node}`);
        for (const { claim, allocation } of grants) devices?.take(claim, allocation);
        return success;
      },
      unreserve(state, { pod }, node) {
        const { claims: all = [], extended, byNode } = state.read<State>(key) ?? {};
        for (const { claim } of byNode?.get(node) ?? []) devices?.drop(claim);
        if (extended?.written !== undefined) background(devices?.writer.remove(extended.written), pod);
        for (const claim of all) {
          const now = devices?.claim(objectKey(claim));
          if (now !== undefined && now.metadata?.uid === claim.metadata?.uid && isReservedFor(now, pod) && !isReservedFor(claim, pod))
            background(devices?.writer.release(now, pod, false), pod);
        }
      },
      preBindPreFlight(state) {
        const { claims: all = [], extended } = state.read<State>(key) ?? {};
        return all.length === 0 && extended === undefined ? skip : success;
      },
      async preBind(state, { pod }, node, context) {
        const { claims: all = [], extended, byNode } = state.read<State>(key) ?? {};
        if (devices === undefined || (all.length === 0 && extended === undefined)) return success;
        const grants = byNode?.get(node) ?? [];
        const written: ResourceClaim[] = [];
        for (const claim of all) {
          const now = devices.claim(objectKey(claim)) ?? claim;
          if (claim.status?.allocation !== undefined && isReservedFor(now, pod)) continue;
          const grant = grants.find((each) => each.claim === claim);
          try {
            written.push(await devices.writer.reserve(now, grant?.allocation, pod, context));
          } catch (error) {
            return failed(`claim ${objectKey(claim)}: ${(error as Error).message}`);
          }
          if (grant !== undefined) devices.drop(claim);
        }
        try {
          const made = extended && (await bindExtended(devices, extended, grants, { node, pod, context }));
          if (made !== undefined) written.push(made);
        } catch (error) {
          return failed(`claim for extended resources: ${(error as Error).message}`);
        }
        const problem = await devices.writer.ready(written, durationMs(bindingTimeout), context.signal);
        if (problem === undefined) return success;
        for (const claim of written) {
          const now = devices.claim(objectKey(claim));
          if (now !== undefined) await devices.writer.release(now, pod, true);
        }
        return unschedulable(problem);
      },
    });
    return configurable(args, config, make);
  },
});
