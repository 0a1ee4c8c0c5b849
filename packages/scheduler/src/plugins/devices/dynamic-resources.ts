import { objectKey } from '@oarlock/api/object';
import { resourceClaims } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { durationMs } from '@oarlock/api/duration';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { AllocationResult, ResourceClaim } from '@oarlock/api/types/resource-v1';
import { Client, Informers } from '@oarlock/spi/client';
import { failed, Scheduling, skip, success, unresolvable, unschedulable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { configurable } from '../../plugin-args.ts';
import { isServed } from '../../served.ts';
import { matchesSelector } from '../node-affinity-match.ts';
import { missingClass } from './allocator.ts';
import { Devices } from './devices.ts';
import { canBeReserved, claimNamesOf, claimsOf, isReservedFor, usesClaims } from './pod-claims.ts';

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

interface State {
  readonly claims: readonly ResourceClaim[];
  /** Those that have no devices yet. */
  readonly open: readonly ResourceClaim[];
  readonly byNode: Map<string, readonly AllocationResult[]>;
  /** Claims that have devices that some node cannot use. */
  readonly elsewhere: Set<string>;
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
            // devices that others give back
            const freed = (old as ResourceClaim | undefined)?.status?.allocation !== undefined;
            return freed && (now as ResourceClaim | undefined)?.status?.allocation === undefined ? 'queue' : 'skip';
          },
        },
        { kind: 'Pod', on: ['updated'] },
        { kind: 'AssignedPod', on: ['deleted'], hint: (_pod, old) => (usesClaims(old as Pod) ? 'queue' : 'skip') },
        { kind: 'ResourceSlice', on: ['added', 'updated', 'deleted'] },
        { kind: 'DeviceClass', on: ['added', 'updated'] },
        { kind: 'Node', on: ['added', 'updated'] },
      ],
      async ready(signal) {
        if (devices === undefined && (await isServed({ client, clock, signal }, resourceClaims)))
          devices = new Devices(informers, client, clock);
        await devices?.ready(signal);
      },
      preEnqueue(pod) {
        if (devices === undefined || !usesClaims(pod)) return success;
        const found = claimsOf(pod, devices.claim);
        return typeof found === 'string' ? unresolvable(found) : success;
      },
      preFilter(state, { pod }) {
        if (devices === undefined || !usesClaims(pod)) return skip;
        const found = claimsOf(pod, devices.claim);
        if (typeof found === 'string') return unresolvable(found);
        if (found.length === 0) return skip;
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
        state.write<State>(key, { claims: found, open, byNode: new Map(), elsewhere: new Set() });
        return success;
      },
      filter(state, _pod, info) {
        const kept = state.read<State>(key);
        if (kept === undefined) return success;
        const away = kept.claims.filter(({ status }) => {
          const where = status?.allocation?.nodeSelector;
          return where !== undefined && !matchesSelector(info.node, where);
        });
        if (away.length > 0) {
          for (const claim of away) kept.elsewhere.add(objectKey(claim));
          return unschedulable('resourceclaim not available on the node');
        }
        if (kept.open.length === 0) return success;
        try {
          const allocations = devices?.allocate(kept.open, info.node, durationMs(filterTimeout));
          if (allocations === undefined) return unschedulable('cannot allocate all claims');
          kept.byNode.set(info.name, allocations);
          return success;
        } catch (error) {
          return unschedulable((error as Error).message);
        }
      },
      /** An allocation that keeps the pod from every node is given back, when nobody else uses it. */
      postFilter(state, { pod }) {
        const { elsewhere = new Set<string>() } = state.read<State>(key) ?? {};
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
      reserve(state, _pod, node) {
        const { open = [], byNode } = state.read<State>(key) ?? {};
        const allocations = byNode?.get(node) ?? [];
        for (const [index, claim] of open.entries()) {
          const allocation = allocations[index];
          if (allocation === undefined) return failed(`claim allocation not found for node ${node}`);
          devices?.take(claim, allocation);
        }
        return success;
      },
      unreserve(state, { pod }, node) {
        const { claims: all = [], open = [], byNode } = state.read<State>(key) ?? {};
        if (byNode?.has(node)) for (const claim of open) devices?.drop(claim);
        for (const claim of all) {
          const now = devices?.claim(objectKey(claim));
          if (now !== undefined && now.metadata?.uid === claim.metadata?.uid && isReservedFor(now, pod) && !isReservedFor(claim, pod))
            background(devices?.writer.release(now, pod, false), pod);
        }
      },
      async preBind(state, { pod }, node, context) {
        const { claims: all = [], open = [], byNode } = state.read<State>(key) ?? {};
        if (devices === undefined || all.length === 0) return success;
        const written: ResourceClaim[] = [];
        for (const claim of all) {
          const now = devices.claim(objectKey(claim)) ?? claim;
          if (claim.status?.allocation !== undefined && isReservedFor(now, pod)) continue;
          const at = open.indexOf(claim);
          try {
            written.push(await devices.writer.reserve(now, at < 0 ? undefined : byNode?.get(node)?.[at], pod, context));
          } catch (error) {
            return failed(`claim ${objectKey(claim)}: ${(error as Error).message}`);
          }
          if (at >= 0) devices.drop(claim);
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
