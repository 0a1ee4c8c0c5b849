import {
  csiDrivers,
  csiStorageCapacities,
  nodes as nodeResource,
  persistentVolumeClaims,
  persistentVolumes,
  storageClasses,
} from '@oarlock/api/resources';
import type { Node, PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { CSIDriver, CSIStorageCapacity, StorageClass } from '@oarlock/api/types/storage-v1';
import { Client, Informers } from '@oarlock/spi/client';
import { failed, Scheduling, skip, success, unresolvable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { AssumeCache } from '../../assume-cache.ts';
import { configurable } from '../../plugin-args.ts';
import { same } from '../../pod-changes.ts';
import { onNode } from '../node-changes.ts';
import { annotations, claimHint, claimsOf, classNameOf, isBound, lookUp } from './claims.ts';
import { VolumeWriter, type Decision } from './volume-writer.ts';
import { allowsNode, findVolume, hasCapacity, reaches, requestOf } from './volume-search.ts';
import { compareQuantity, value } from '@oarlock/api/quantity';

const freeOfClass = 'free-or-kept-volumes-of-class';
const capacitiesOfClass = 'capacities-of-class';
const classOfUnbound = (volume: PersistentVolume) => [classNameOf(volume)];
const classOfCapacity = ({ storageClassName }: CSIStorageCapacity) => [storageClassName];

const conflict = "node(s) didn't match PersistentVolume's node affinity";
const nothingFound = "node(s) didn't find available persistent volumes to bind";
const tooLittle = 'node(s) did not have enough free storage';
const lostVolume = 'node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)';

const topologiesOf = (found: unknown) => (found as StorageClass).allowedTopologies;
const tracksCapacity = (driver: unknown) => (driver as CSIDriver).spec.storageCapacity === true;
const roomOf = ({ maximumVolumeSize, capacity }: CSIStorageCapacity) => value(maximumVolumeSize ?? capacity ?? '0');

const args = z.strictObject({
  /** So long a pod waits for its volumes once it has a node; 0: not at all. */
  bindTimeoutSeconds: z.number().int().min(0).default(600),
});

interface State {
  readonly bound: readonly PersistentVolumeClaim[];
  readonly waiting: readonly PersistentVolumeClaim[];
  /** By node, for the nodes that were looked at. */
  readonly decisions: Map<string, Decision>;
}

/** Pods go where their volumes are or can be made; claims that wait for their first consumer are bound with the pod (KEP-490). */
export const volumeBinding = Scheduling.plugin({
  id: 'scheduling-volume-binding',
  config: args,
  needs: { client: Client, informers: Informers },
  create({ config, client, informers }, { clock }): SchedulingPlugin {
    const volumes = new AssumeCache(informers.of(persistentVolumes));
    const claims = new AssumeCache(informers.of(persistentVolumeClaims));
    const classes = informers.of(storageClasses);
    const capacities = informers.of(csiStorageCapacities);
    const drivers = informers.of(csiDrivers);
    const nodes = informers.of(nodeResource);
    const writer = new VolumeWriter({ volumes, claims, nodes, client, clock });
    volumes.informer.addIndex(freeOfClass, classOfUnbound);
    capacities.addIndex(capacitiesOfClass, classOfCapacity);
    const key = Symbol('VolumeBinding');
    const isDelayed = (claim: PersistentVolumeClaim) => classes.get(classNameOf(claim))?.volumeBindingMode === 'WaitForFirstConsumer';

    const boundElsewhere = (claim: PersistentVolumeClaim, node: Node): string | undefined => {
      const volume = volumes.get(claim.spec?.volumeName ?? '');
      return volume === undefined ? lostVolume : reaches(volume, node) ? undefined : conflict;
    };
    const mayProvision = (claim: PersistentVolumeClaim, node: Node): string | undefined => {
      const found = classes.get(classNameOf(claim));
      if (found === undefined || !found.provisioner || found.provisioner === 'kubernetes.io/no-provisioner') return nothingFound;
      if (!allowsNode(found, node)) return nothingFound;
      const tracked = drivers.get(found.provisioner)?.spec.storageCapacity === true;
      return tracked && !hasCapacity(claim, node, capacities.byIndex(capacitiesOfClass, classNameOf(claim))) ? tooLittle : undefined;
    };

    const decide = ({ bound, waiting }: State, node: Node): Decision | readonly string[] => {
      const reasons = new Set<string>();
      for (const claim of bound) {
        const reason = boundElsewhere(claim, node);
        if (reason !== undefined) reasons.add(reason);
      }
      const bind: { readonly claim: PersistentVolumeClaim; readonly volume: PersistentVolume }[] = [];
      const provision: PersistentVolumeClaim[] = [];
      const taken = new Set<string>();
      for (const claim of waiting) {
        const selected = claim.metadata?.annotations?.[annotations.selectedNode];
        if (selected !== undefined && selected !== node.metadata?.name) {
          reasons.add(nothingFound);
          continue;
        }
        const volume =
          selected === undefined ? findVolume(claim, volumes.byIndex(freeOfClass, classNameOf(claim)), node, taken) : undefined;
        if (volume !== undefined) {
          taken.add(volume.metadata?.name ?? '');
          bind.push({ claim, volume });
          continue;
        }
        const refused = mayProvision(claim, node);
        if (refused === undefined) provision.push(claim);
        else reasons.add(refused);
      }
      return reasons.size > 0 ? [...reasons] : { bind, provision };
    };

    const ready = async (signal: AbortSignal) => {
      const all = [volumes.informer, claims.informer, classes, capacities, drivers, nodes];
      await Promise.all(all.map((informer) => informer.whenSynced(signal)));
    };

    return configurable(args, config, ({ bindTimeoutSeconds }) => ({
      name: 'VolumeBinding',
      requeueOn: [
        {
          kind: 'StorageClass',
          on: ['added', 'updated'],
          hint: (_pod, old, now) => (old !== undefined && same(topologiesOf(old), topologiesOf(now)) ? 'skip' : 'queue'),
        },
        { kind: 'PersistentVolumeClaim', on: ['added', 'updated'], hint: claimHint },
        { kind: 'PersistentVolume', on: ['added', 'updated'] },
        onNode(['labels']),
        {
          kind: 'CSIDriver',
          on: ['updated'],
          hint: (_pod, old, now) => (tracksCapacity(old) && !tracksCapacity(now) ? 'queue' : 'skip'),
        },
        {
          kind: 'CSIStorageCapacity',
          on: ['added', 'updated'],
          hint: (_pod, old, now) =>
            old === undefined || roomOf(now as CSIStorageCapacity) > roomOf(old as CSIStorageCapacity) ? 'queue' : 'skip',
        },
      ],
      ready,
      preFilter(state, { pod }) {
        if (claimsOf(pod).length === 0) return skip;
        const looked = lookUp(pod, claims);
        if ('refused' in looked) return looked.refused;
        const bound: PersistentVolumeClaim[] = [];
        const waiting: PersistentVolumeClaim[] = [];
        for (const claim of looked.found) {
          if (isBound(claim)) bound.push(claim);
          // one that is bound to a volume but not by both sides yet is not for us to bind
          else if (isDelayed(claim) && !claim.spec?.volumeName) waiting.push(claim);
          else return unresolvable('pod has unbound immediate PersistentVolumeClaims');
        }
        // the smallest first, so that it does not take what only it could spare
        waiting.sort((a, b) => compareQuantity(requestOf(a), requestOf(b)));
        state.write<State>(key, { bound, waiting, decisions: new Map() });
        return success;
      },
      filter(state, _pod, { name, node }) {
        const kept = state.read<State>(key);
        if (kept === undefined) return success;
        const decided = decide(kept, node);
        if (Array.isArray(decided)) return unresolvable(...(decided as readonly string[]));
        kept.decisions.set(name, decided as Decision);
        return success;
      },
      reserve(state, { key: pod }, node) {
        const decision = state.read<State>(key)?.decisions.get(node);
        if (decision !== undefined) writer.assume(pod, node, decision);
        return success;
      },
      unreserve: (_state, { key: pod }) => writer.forget(pod),
      // bound volumes only are looked at once more
      preBindPreFlight: (state) => ((state.read<State>(key)?.waiting.length ?? 0) === 0 ? skip : success),
      async preBind(state, pod, node, context) {
        const { bound = [], waiting = [] } = state.read<State>(key) ?? {};
        if (bound.length + waiting.length === 0) return success;
        const problem = await writer.write(pod.key, node, waiting, bindTimeoutSeconds * 1000, context);
        return problem === undefined ? success : failed(`binding volumes: ${problem}`);
      },
    }));
  },
});
