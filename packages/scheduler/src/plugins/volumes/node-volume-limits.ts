import { csiDrivers, csiNodes, persistentVolumeClaims, persistentVolumes, storageClasses, volumeAttachments } from '@oarlock/api/resources';
import type { PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';
import type { CSINode, VolumeAttachment } from '@oarlock/api/types/storage-v1';
import { Informers } from '@oarlock/spi/client';
import { Scheduling, skip, success, unschedulable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { same } from '../../pod-changes.ts';
import { claimHint, claimOf, classNameOf } from './claims.ts';

const attachedTo = 'scheduler/attachments-of-node';
const nodeOf = ({ spec }: VolumeAttachment) => [spec.nodeName];

/** Holds the volumes that a CSI driver attaches to a node to what the driver says it can (`CSINode`). */
export const nodeVolumeLimits = Scheduling.plugin({
  id: 'scheduling-node-volume-limits',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }): SchedulingPlugin {
    const claims = informers.of(persistentVolumeClaims);
    const volumes = informers.of(persistentVolumes);
    const classes = informers.of(storageClasses);
    const nodes = informers.of(csiNodes);
    const drivers = informers.of(csiDrivers);
    const attachments = informers.of(volumeAttachments);
    attachments.addIndex(attachedTo, nodeOf);
    const wantedKey = Symbol('NodeVolumeLimits');

    /** Driver and identity of the volume behind a claim: one that is not made yet counts as its claim. */
    const volumeOf = (claim: PersistentVolumeClaim): readonly [string, string] | undefined => {
      const { namespace, name } = claim.metadata ?? {};
      const csi = volumes.get(claim.spec?.volumeName ?? '')?.spec?.csi;
      if (csi !== undefined) return [csi.driver, csi.volumeHandle];
      const provisioner = classes.get(classNameOf(claim))?.provisioner;
      return provisioner === undefined || claim.spec?.volumeName ? undefined : [provisioner, `${namespace}/${name}`];
    };
    /** Identities of volumes to their drivers. */
    const volumesOf = (pod: Pod, into: Map<string, string>): Map<string, string> => {
      for (const volume of pod.spec?.volumes ?? []) {
        const use = claimOf(pod, volume);
        const claim = use && claims.get(`${pod.metadata?.namespace}/${use.name}`);
        const found = claim && volumeOf(claim);
        if (found !== undefined) into.set(`${found[0]} ${found[1]}`, found[0]);
      }
      return into;
    };

    return {
      name: 'NodeVolumeLimits',
      requeueOn: [
        {
          kind: 'CSINode',
          on: ['added', 'updated'],
          hint: (_pod, old, now) => (old !== undefined && same((old as CSINode).spec, (now as CSINode).spec) ? 'skip' : 'queue'),
        },
        { kind: 'CSIDriver', on: ['updated'] },
        { kind: 'AssignedPod', on: ['deleted'], hint: (_pod, old) => ((old as Pod).spec?.volumes?.length ? 'queue' : 'skip') },
        { kind: 'PersistentVolumeClaim', on: ['added'], hint: claimHint },
        { kind: 'VolumeAttachment', on: ['deleted'] },
        { kind: 'Node', on: ['added'] },
      ],
      async ready(signal) {
        await Promise.all([claims, volumes, classes, nodes, drivers, attachments].map((informer) => informer.whenSynced(signal)));
      },
      preFilter(state, { pod }) {
        const wanted = volumesOf(pod, new Map());
        if (wanted.size === 0) return skip;
        state.write(wantedKey, wanted);
        return success;
      },
      filter(state, _pod, { name, pods }) {
        const wanted = state.read<ReadonlyMap<string, string>>(wantedKey) ?? new Map<string, string>();
        const here = nodes.get(name)?.spec.drivers ?? [];
        const limits = new Map<string, number>();
        for (const driver of new Set(wanted.values())) {
          const found = here.find((each) => each.name === driver);
          if (found === undefined && drivers.get(driver)?.spec.preventPodSchedulingIfMissing === true)
            return unschedulable(`${driver} CSI driver is not installed on the node`);
          if (found?.allocatable?.count !== undefined) limits.set(driver, found.allocatable.count);
        }
        if (limits.size === 0) return success;
        const used = new Map<string, string>();
        for (const other of pods) volumesOf(other.pod, used);
        // attached for pods that are gone, or not seen yet
        for (const { spec } of attachments.byIndex(attachedTo, name)) {
          const csi = volumes.get(spec.source.persistentVolumeName ?? '')?.spec?.csi ?? spec.source.inlineVolumeSpec?.csi;
          if (csi !== undefined) used.set(`${csi.driver} ${csi.volumeHandle}`, csi.driver);
        }
        for (const [driver, limit] of limits) {
          let count = 0;
          let more = 0;
          for (const each of used.values()) if (each === driver) count++;
          for (const [volume, each] of wanted) if (each === driver && !used.has(volume)) more++;
          if (more > 0 && count + more > limit) return unschedulable('node(s) exceed max volume count');
        }
        return success;
      },
    };
  },
});
