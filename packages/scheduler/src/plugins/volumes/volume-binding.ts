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
import { compareQuantity, quantityValue } from '@oarlock/api/values/quantity';
import type { Clock } from '@oarlock/primitives/clock';
import { Client, Informers, type Informer } from '@oarlock/spi/client';
import {
  errorStatus,
  Scheduling,
  skip,
  success,
  unschedulableAndUnresolvable,
  type BindContext,
  type ClusterEventWithHint,
  type CycleState,
  type NodeInfo,
  type PodInfo,
  type SchedulingPlugin,
  type Status,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { AssumeCache } from '../../cache/assume-cache.ts';
import { isEqual } from '../../pod-info/pod-changes.ts';
import { nodeEvent } from '../helper/node-events.ts';
import { withConfigurableArgs } from '../helper/plugin-args.ts';
import { annotations, claimHint, claimsOf, classNameOf, isFullyBound, lookUpClaims } from './pod-volume-claims.ts';
import { VolumeBinder, type PodVolumes } from './volume-binder.ts';
import { allowsNode, findMatchingVolume, hasCapacity, matchesNodeAffinity, requestOf } from './volume-matching.ts';

const volumesByClass = 'free-or-kept-volumes-of-class';
const capacitiesByClass = 'capacities-of-class';
const classOfVolume = (volume: PersistentVolume) => [classNameOf(volume)];
const classOfCapacity = ({ storageClassName }: CSIStorageCapacity) => [storageClassName];

const nodeConflict = "node(s) didn't match PersistentVolume's node affinity";
const noMatchingVolumes = "node(s) didn't find available persistent volumes to bind";
const insufficientCapacity = 'node(s) did not have enough free storage';
const lostVolume = 'node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)';

const topologiesOf = (storageClass: unknown) => (storageClass as StorageClass).allowedTopologies;
const tracksCapacity = (driver: unknown) => (driver as CSIDriver).spec.storageCapacity === true;
const availableCapacity = ({ maximumVolumeSize, capacity }: CSIStorageCapacity) => quantityValue(maximumVolumeSize ?? capacity ?? '0');

const args = z.strictObject({
  /** Maximum time in seconds to wait in preBind until the volumes are bound; 0 means no waiting. */
  bindTimeoutSeconds: z.number().int().min(0).default(600),
});

interface PreFilterState {
  readonly boundClaims: readonly PersistentVolumeClaim[];
  /** Unbound claims with volumeBindingMode WaitForFirstConsumer, the smallest request first. */
  readonly claimsToBind: readonly PersistentVolumeClaim[];
  /** The volume decisions for each node that passed the filter. */
  readonly podVolumesByNode: Map<string, PodVolumes>;
}
const preFilterKey = Symbol('VolumeBinding');

const eventsToRegister: readonly ClusterEventWithHint[] = [
  {
    kind: 'StorageClass',
    actions: ['added', 'updated'],
    queueingHint: (_pod, old, now) => (old !== undefined && isEqual(topologiesOf(old), topologiesOf(now)) ? 'skip' : 'queue'),
  },
  { kind: 'PersistentVolumeClaim', actions: ['added', 'updated'], queueingHint: claimHint },
  { kind: 'PersistentVolume', actions: ['added', 'updated'] },
  nodeEvent(['labels']),
  {
    kind: 'CSIDriver',
    actions: ['updated'],
    queueingHint: (_pod, old, now) => (tracksCapacity(old) && !tracksCapacity(now) ? 'queue' : 'skip'),
  },
  {
    kind: 'CSIStorageCapacity',
    actions: ['added', 'updated'],
    queueingHint: (_pod, old, now) =>
      old === undefined || availableCapacity(now as CSIStorageCapacity) > availableCapacity(old as CSIStorageCapacity) ? 'queue' : 'skip',
  },
];

/**
 * The plugin VolumeBinding: accepts nodes that can access the pod's bound volumes and on which its unbound claims can be bound or provisioned. Claims
 * with WaitForFirstConsumer are bound together with the pod (KEP-490).
 */
class VolumeBinding {
  readonly #volumes: AssumeCache<PersistentVolume>;
  readonly #claims: AssumeCache<PersistentVolumeClaim>;
  readonly #classes: Informer<StorageClass>;
  readonly #capacities: Informer<CSIStorageCapacity>;
  readonly #drivers: Informer<CSIDriver>;
  readonly #nodes: Informer<Node>;
  readonly #binder: VolumeBinder;

  constructor(client: Client, informers: Informers, clock: Clock) {
    this.#volumes = new AssumeCache(informers.forResource(persistentVolumes));
    this.#claims = new AssumeCache(informers.forResource(persistentVolumeClaims));
    this.#classes = informers.forResource(storageClasses);
    this.#capacities = informers.forResource(csiStorageCapacities);
    this.#drivers = informers.forResource(csiDrivers);
    this.#nodes = informers.forResource(nodeResource);
    this.#binder = new VolumeBinder({ volumes: this.#volumes, claims: this.#claims, nodes: this.#nodes, client, clock });
    this.#volumes.informer.addIndexer(volumesByClass, classOfVolume);
    this.#capacities.addIndexer(capacitiesByClass, classOfCapacity);
  }

  withArgs({ bindTimeoutSeconds }: z.output<typeof args>): SchedulingPlugin {
    return {
      name: 'VolumeBinding',
      eventsToRegister,
      whenSynced: (signal) => this.#whenSynced(signal),
      preFilter: (state, pod) => this.#preFilter(state, pod),
      filter: (state, _pod, node) => this.#filter(state, node),
      reserve: (state, { key }, node) => {
        const podVolumes = state.read<PreFilterState>(preFilterKey)?.podVolumesByNode.get(node);
        if (podVolumes !== undefined) this.#binder.assumePodVolumes(key, node, podVolumes);
        return success;
      },
      unreserve: (_state, { key }) => this.#binder.revertAssumedPodVolumes(key),
      // bound claims are only checked again, which does not take long
      preBindPreFlight: (state) => ((state.read<PreFilterState>(preFilterKey)?.claimsToBind.length ?? 0) === 0 ? skip : success),
      preBind: (state, pod, node, context) => this.#preBind(state, pod, node, context, bindTimeoutSeconds),
    };
  }

  async #whenSynced(signal: AbortSignal): Promise<void> {
    const informers = [this.#volumes.informer, this.#claims.informer, this.#classes, this.#capacities, this.#drivers, this.#nodes];
    await Promise.all(informers.map((informer) => informer.whenSynced(signal)));
  }

  #preFilter(state: CycleState, { pod }: PodInfo): Status {
    if (claimsOf(pod).length === 0) return skip;
    const result = lookUpClaims(pod, this.#claims);
    if ('rejection' in result) return result.rejection;
    const boundClaims: PersistentVolumeClaim[] = [];
    const claimsToBind: PersistentVolumeClaim[] = [];
    for (const claim of result.claims) {
      if (isFullyBound(claim)) boundClaims.push(claim);
      // a claim with a volume name is being bound by the PersistentVolume controller
      else if (this.#isDelayed(claim) && !claim.spec?.volumeName) claimsToBind.push(claim);
      else return unschedulableAndUnresolvable('pod has unbound immediate PersistentVolumeClaims');
    }
    // the smallest claim first, so that it gets the smallest matching volume
    claimsToBind.sort((a, b) => compareQuantity(requestOf(a), requestOf(b)));
    state.write<PreFilterState>(preFilterKey, { boundClaims, claimsToBind, podVolumesByNode: new Map() });
    return success;
  }

  #isDelayed(claim: PersistentVolumeClaim): boolean {
    return this.#classes.get(classNameOf(claim))?.volumeBindingMode === 'WaitForFirstConsumer';
  }

  #filter(state: CycleState, { name, node }: NodeInfo): Status {
    const preFilterState = state.read<PreFilterState>(preFilterKey);
    if (preFilterState === undefined) return success;
    const result = this.#findPodVolumes(preFilterState, node);
    if ('reasons' in result) return unschedulableAndUnresolvable(...result.reasons);
    preFilterState.podVolumesByNode.set(name, result);
    return success;
  }

  /** Returns the volumes for the pod's claims on a node, or the reasons why there are none (FindPodVolumes upstream). */
  #findPodVolumes({ boundClaims, claimsToBind }: PreFilterState, node: Node): PodVolumes | { readonly reasons: readonly string[] } {
    const reasons = new Set<string>();
    for (const claim of boundClaims) {
      const conflict = this.#boundVolumeConflict(claim, node);
      if (conflict !== undefined) reasons.add(conflict);
    }
    const staticBindings: { readonly claim: PersistentVolumeClaim; readonly volume: PersistentVolume }[] = [];
    const dynamicProvisions: PersistentVolumeClaim[] = [];
    const chosenVolumes = new Set<string>();
    for (const claim of claimsToBind) {
      const selectedNode = claim.metadata?.annotations?.[annotations.selectedNode];
      if (selectedNode !== undefined && selectedNode !== node.metadata?.name) {
        reasons.add(noMatchingVolumes);
        continue;
      }
      const volume =
        selectedNode === undefined
          ? findMatchingVolume(claim, this.#volumes.byIndex(volumesByClass, classNameOf(claim)), node, chosenVolumes)
          : undefined;
      if (volume !== undefined) {
        chosenVolumes.add(volume.metadata?.name ?? '');
        staticBindings.push({ claim, volume });
        continue;
      }
      const conflict = this.#provisioningConflict(claim, node);
      if (conflict === undefined) dynamicProvisions.push(claim);
      else reasons.add(conflict);
    }
    return reasons.size > 0 ? { reasons: [...reasons] } : { staticBindings, dynamicProvisions };
  }

  /** Returns why a node cannot use the volume of a bound claim, or undefined if the node can use it. */
  #boundVolumeConflict(claim: PersistentVolumeClaim, node: Node): string | undefined {
    const volume = this.#volumes.get(claim.spec?.volumeName ?? '');
    if (volume === undefined) return lostVolume;
    return matchesNodeAffinity(volume, node) ? undefined : nodeConflict;
  }

  /** Returns why no volume can be provisioned for the claim on a node, or undefined if provisioning is possible. */
  #provisioningConflict(claim: PersistentVolumeClaim, node: Node): string | undefined {
    const storageClass = this.#classes.get(classNameOf(claim));
    if (!storageClass?.provisioner || storageClass.provisioner === 'kubernetes.io/no-provisioner') return noMatchingVolumes;
    if (!allowsNode(storageClass, node)) return noMatchingVolumes;
    if (this.#drivers.get(storageClass.provisioner)?.spec.storageCapacity !== true) return undefined;
    return hasCapacity(claim, node, this.#capacities.byIndex(capacitiesByClass, classNameOf(claim))) ? undefined : insufficientCapacity;
  }

  async #preBind(state: CycleState, { key }: PodInfo, node: string, context: BindContext, bindTimeoutSeconds: number): Promise<Status> {
    const { boundClaims = [], claimsToBind = [] } = state.read<PreFilterState>(preFilterKey) ?? {};
    if (boundClaims.length + claimsToBind.length === 0) return success;
    const failure = await this.#binder.bindPodVolumes(key, { node, claimsToBind, timeoutMs: bindTimeoutSeconds * 1000, context });
    return failure === undefined ? success : errorStatus(`binding volumes: ${failure}`);
  }
}

export const volumeBinding = Scheduling.plugin({
  id: 'scheduling-volume-binding',
  config: args,
  needs: { client: Client, informers: Informers },
  create({ config, client, informers }, { clock }): SchedulingPlugin {
    const plugin = new VolumeBinding(client, informers, clock);
    return withConfigurableArgs(args, config, (pluginArgs) => plugin.withArgs(pluginArgs));
  },
});
