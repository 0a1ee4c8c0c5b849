import { persistentVolumeClaims } from '@oarlock/api/resources';
import type { Pod, Volume } from '@oarlock/api/types/core-v1';
import { Informers } from '@oarlock/spi/client';
import { Scheduling, skip, success, unschedulable, type CycleState, type PodInfo, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { claimHint, claimsOf, claimNotFound } from './pod-volume-claims.ts';

interface ExclusiveDisk {
  readonly id: string;
  readonly readOnly: boolean;
}

const sharesElement = (a: readonly string[] | undefined, b: readonly string[] | undefined) => a?.some((each) => b?.includes(each)) === true;

/**
 * Returns the disks of a pod's volumes that two pods on one node cannot both mount, unless both mount them read-only. EBS disks can never be shared.
 */
function disksOf({ gcePersistentDisk: gce, awsElasticBlockStore: ebs, iscsi }: Volume): readonly ExclusiveDisk[] {
  if (gce !== undefined) return [{ id: `gce ${gce.pdName}`, readOnly: gce.readOnly === true }];
  if (ebs !== undefined) return [{ id: `ebs ${ebs.volumeID}`, readOnly: false }];
  if (iscsi !== undefined) return [{ id: `iscsi ${iscsi.iqn}`, readOnly: iscsi.readOnly === true }];
  return [];
}

const hasDisk = ({ spec }: Pod) =>
  spec?.volumes?.some((volume) => (volume.gcePersistentDisk ?? volume.awsElasticBlockStore ?? volume.iscsi ?? volume.rbd) !== undefined) ===
  true;

function isVolumeConflict(volume: Volume, other: Volume): boolean {
  const { rbd } = volume;
  if (rbd !== undefined && other.rbd !== undefined)
    return (
      (rbd.pool ?? 'rbd') === (other.rbd.pool ?? 'rbd') &&
      rbd.image === other.rbd.image &&
      sharesElement(rbd.monitors, other.rbd.monitors) &&
      !(rbd.readOnly === true && other.rbd.readOnly === true)
    );
  const otherDisks = disksOf(other);
  return disksOf(volume).some(({ id, readOnly }) => otherDisks.some((disk) => disk.id === id && !(readOnly && disk.readOnly)));
}

interface PreFilterState {
  /** The pod's PersistentVolumeClaims with the access mode ReadWriteOncePod. */
  readonly exclusive: ReadonlySet<string>;
  /** Number of assigned pods that use one of these claims. */
  users: number;
}

/** Rejects nodes with a conflicting disk, and pods whose ReadWriteOncePod claim is in use. */
export const volumeRestrictions = Scheduling.plugin({
  id: 'scheduling-volume-restrictions',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }): SchedulingPlugin {
    const claims = informers.forResource(persistentVolumeClaims);
    const key = Symbol('VolumeRestrictions');
    const updateUsers = (state: CycleState, { pod }: PodInfo, { pod: other }: PodInfo, by: 1 | -1) => {
      const preFilterState = state.read<PreFilterState>(key);
      if (preFilterState === undefined || other.metadata?.namespace !== pod.metadata?.namespace) return;
      for (const { name } of claimsOf(other)) if (preFilterState.exclusive.has(name)) preFilterState.users += by;
    };
    return {
      name: 'VolumeRestrictions',
      eventsToRegister: [
        {
          kind: 'AssignedPod',
          actions: ['deleted'],
          queueingHint: (pod, old) =>
            hasDisk(pod) || claimsOf(pod).some(({ name }) => claimsOf(old as Pod).some((used) => used.name === name)) ? 'queue' : 'skip',
        },
        { kind: 'Node', actions: ['added'] },
        { kind: 'PersistentVolumeClaim', actions: ['added', 'updated'], queueingHint: claimHint },
      ],
      whenSynced: (signal) => claims.whenSynced(signal),
      preFilter(state, { pod }) {
        const uses = claimsOf(pod);
        if (uses.length === 0) return hasDisk(pod) ? success : skip;
        const namespace = pod.metadata?.namespace ?? '';
        const exclusive = new Set<string>();
        for (const { name, ephemeral } of uses) {
          const claim = claims.get(`${namespace}/${name}`);
          if (claim === undefined && !ephemeral) return claimNotFound(name);
          if (claim?.spec?.accessModes?.includes('ReadWriteOncePod')) exclusive.add(name);
        }
        if (exclusive.size === 0) return hasDisk(pod) ? success : skip;
        let users = 0;
        for (const name of exclusive)
          for (const count of state.snapshot
            .podCountByNode({
              key: `claim ${namespace}/${name}`,
              namespaces: new Set([namespace]),
              matches: (other) => claimsOf(other).some((use) => use.name === name),
            })
            .values())
            users += count;
        state.write<PreFilterState>(key, { exclusive, users });
        return success;
      },
      addPod: (state, pod, added) => updateUsers(state, pod, added, 1),
      removePod: (state, pod, removed) => updateUsers(state, pod, removed, -1),
      filter(state, { pod }, { pods }) {
        if (hasDisk(pod))
          for (const volume of pod.spec?.volumes ?? [])
            for (const other of pods)
              if (other.pod.spec?.volumes?.some((otherVolume) => isVolumeConflict(volume, otherVolume)))
                return unschedulable('node(s) had no available disk');
        return (state.read<PreFilterState>(key)?.users ?? 0) > 0
          ? unschedulable('node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode')
          : success;
      },
    };
  },
});
