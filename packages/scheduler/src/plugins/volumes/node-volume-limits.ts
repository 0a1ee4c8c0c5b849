import { csiDrivers, csiNodes, persistentVolumeClaims, persistentVolumes, storageClasses, volumeAttachments } from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';
import type { CSIDriver, CSINode, StorageClass, VolumeAttachment } from '@oarlock/api/types/storage-v1';
import { Informers, type Informer } from '@oarlock/spi/client';
import {
  Scheduling,
  skip,
  success,
  unschedulable,
  type ClusterEventWithHint,
  type CycleState,
  type NodeInfo,
  type PodInfo,
  type SchedulingPlugin,
  type Status,
} from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { isEqual } from '../../pod-info/pod-changes.ts';
import { claimHint, claimOf, classNameOf } from './pod-volume-claims.ts';

const attachmentsByNode = 'scheduler/attachments-of-node';
const nodeOf = ({ spec }: VolumeAttachment) => [spec.nodeName];
const preFilterKey = Symbol('NodeVolumeLimits');

/** CSI driver names, keyed by unique volume name (`driver handle`). */
type VolumeDrivers = Map<string, string>;

const eventsToRegister: readonly ClusterEventWithHint[] = [
  {
    kind: 'CSINode',
    actions: ['added', 'updated'],
    queueingHint: (_pod, old, now) => (old !== undefined && isEqual((old as CSINode).spec, (now as CSINode).spec) ? 'skip' : 'queue'),
  },
  { kind: 'CSIDriver', actions: ['updated'] },
  { kind: 'AssignedPod', actions: ['deleted'], queueingHint: (_pod, old) => ((old as Pod).spec?.volumes?.length ? 'queue' : 'skip') },
  { kind: 'PersistentVolumeClaim', actions: ['added'], queueingHint: claimHint },
  { kind: 'VolumeAttachment', actions: ['deleted'] },
  { kind: 'Node', actions: ['added'] },
];

/** The plugin NodeVolumeLimits: rejects nodes where the pod's volumes would exceed the attach limit of a CSI driver in `CSINode`. */
class NodeVolumeLimits {
  readonly #claims: Informer<PersistentVolumeClaim>;
  readonly #volumes: Informer<PersistentVolume>;
  readonly #classes: Informer<StorageClass>;
  readonly #csiNodes: Informer<CSINode>;
  readonly #drivers: Informer<CSIDriver>;
  readonly #attachments: Informer<VolumeAttachment>;

  constructor(informers: Informers) {
    this.#claims = informers.forResource(persistentVolumeClaims);
    this.#volumes = informers.forResource(persistentVolumes);
    this.#classes = informers.forResource(storageClasses);
    this.#csiNodes = informers.forResource(csiNodes);
    this.#drivers = informers.forResource(csiDrivers);
    this.#attachments = informers.forResource(volumeAttachments);
    this.#attachments.addIndexer(attachmentsByNode, nodeOf);
  }

  plugin(): SchedulingPlugin {
    return {
      name: 'NodeVolumeLimits',
      eventsToRegister,
      whenSynced: (signal) => this.#whenSynced(signal),
      preFilter: (state, pod) => this.#preFilter(state, pod),
      filter: (state, _pod, node) => this.#filter(state, node),
    };
  }

  async #whenSynced(signal: AbortSignal): Promise<void> {
    const informers = [this.#claims, this.#volumes, this.#classes, this.#csiNodes, this.#drivers, this.#attachments];
    await Promise.all(informers.map((informer) => informer.whenSynced(signal)));
  }

  #preFilter(state: CycleState, { pod }: PodInfo): Status {
    const requested: VolumeDrivers = new Map();
    this.#addPodVolumes(pod, requested);
    if (requested.size === 0) return skip;
    state.write(preFilterKey, requested);
    return success;
  }

  #filter(state: CycleState, { name, pods }: NodeInfo): Status {
    const requested = state.read<VolumeDrivers>(preFilterKey) ?? new Map<string, string>();
    const nodeDrivers = this.#csiNodes.get(name)?.spec.drivers ?? [];
    const limits = new Map<string, number>();
    for (const driver of new Set(requested.values())) {
      const nodeDriver = nodeDrivers.find((each) => each.name === driver);
      if (nodeDriver === undefined && this.#drivers.get(driver)?.spec.preventPodSchedulingIfMissing === true)
        return unschedulable(`${driver} CSI driver is not installed on the node`);
      if (nodeDriver?.allocatable?.count !== undefined) limits.set(driver, nodeDriver.allocatable.count);
    }
    if (limits.size === 0) return success;
    const attached = this.#attachedVolumes(name, pods);
    for (const [driver, limit] of limits) {
      let attachedCount = 0;
      let newCount = 0;
      for (const each of attached.values()) if (each === driver) attachedCount++;
      for (const [volume, each] of requested) if (each === driver && !attached.has(volume)) newCount++;
      if (newCount > 0 && attachedCount + newCount > limit) return unschedulable('node(s) exceed max volume count');
    }
    return success;
  }

  /** Returns the volumes of the node's pods and of VolumeAttachments; the latter may belong to pods that are deleted or not observed yet. */
  #attachedVolumes(node: string, pods: readonly PodInfo[]): VolumeDrivers {
    const attached: VolumeDrivers = new Map();
    for (const { pod } of pods) this.#addPodVolumes(pod, attached);
    for (const { spec } of this.#attachments.byIndex(attachmentsByNode, node)) {
      const csi = this.#volumes.get(spec.source.persistentVolumeName ?? '')?.spec?.csi ?? spec.source.inlineVolumeSpec?.csi;
      if (csi !== undefined) attached.set(`${csi.driver} ${csi.volumeHandle}`, csi.driver);
    }
    return attached;
  }

  #addPodVolumes(pod: Pod, volumes: VolumeDrivers): void {
    for (const volume of pod.spec?.volumes ?? []) {
      const podClaim = claimOf(pod, volume);
      const claim = podClaim && this.#claims.get(`${pod.metadata?.namespace}/${podClaim.name}`);
      const found = claim && this.#volumeOf(claim);
      if (found !== undefined) volumes.set(`${found.driver} ${found.handle}`, found.driver);
    }
  }

  /**
   * Returns the CSI driver and handle of a claim's volume, or undefined if the volume is not a CSI volume. The handle of a volume that is not
   * provisioned yet is the key of the claim.
   */
  #volumeOf(claim: PersistentVolumeClaim): { readonly driver: string; readonly handle: string } | undefined {
    const { namespace, name } = claim.metadata ?? {};
    const csi = this.#volumes.get(claim.spec?.volumeName ?? '')?.spec?.csi;
    if (csi !== undefined) return { driver: csi.driver, handle: csi.volumeHandle };
    const provisioner = this.#classes.get(classNameOf(claim))?.provisioner;
    return provisioner === undefined || claim.spec?.volumeName ? undefined : { driver: provisioner, handle: `${namespace}/${name}` };
  }
}

export const nodeVolumeLimits = Scheduling.plugin({
  id: 'scheduling-node-volume-limits',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create: ({ informers }): SchedulingPlugin => new NodeVolumeLimits(informers).plugin(),
});
