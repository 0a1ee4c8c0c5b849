import { persistentVolumeClaims } from '@oarlock/api/resources';
import type { Pod, Volume } from '@oarlock/api/types/core-v1';
import { Informers } from '@oarlock/spi/client';
import { Scheduling, skip, success, unschedulable, type CycleState, type PodInfo, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { claimHint, claimsOf, notFound } from './claims.ts';

interface Disk {
  readonly id: string;
  readonly readOnly: boolean;
}

const overlap = (a: readonly string[] | undefined, b: readonly string[] | undefined) => a?.some((each) => b?.includes(each)) === true;

/** The disk of a volume of a kind that one node mounts once; read-only mounts get along, except of EBS. */
function disksOf({ gcePersistentDisk: gce, awsElasticBlockStore: ebs, iscsi }: Volume): readonly Disk[] {
  if (gce !== undefined) return [{ id: `gce ${gce.pdName}`, readOnly: gce.readOnly === true }];
  if (ebs !== undefined) return [{ id: `ebs ${ebs.volumeID}`, readOnly: false }];
  if (iscsi !== undefined) return [{ id: `iscsi ${iscsi.iqn}`, readOnly: iscsi.readOnly === true }];
  return [];
}

const hasDisk = ({ spec }: Pod) =>
  spec?.volumes?.some((volume) => (volume.gcePersistentDisk ?? volume.awsElasticBlockStore ?? volume.iscsi ?? volume.rbd) !== undefined) ===
  true;

function collides(wanted: Volume, other: Volume): boolean {
  const { rbd } = wanted;
  if (rbd !== undefined && other.rbd !== undefined)
    return (
      (rbd.pool ?? 'rbd') === (other.rbd.pool ?? 'rbd') &&
      rbd.image === other.rbd.image &&
      overlap(rbd.monitors, other.rbd.monitors) &&
      !(rbd.readOnly === true && other.rbd.readOnly === true)
    );
  const theirs = disksOf(other);
  return disksOf(wanted).some(({ id, readOnly }) => theirs.some((disk) => disk.id === id && !(readOnly && disk.readOnly)));
}

interface State {
  readonly exclusive: ReadonlySet<string>;
  /** Pods that use one of the claims already. */
  users: number;
}

/** Keeps pods apart that cannot share a disk, and a ReadWriteOncePod claim to one pod. */
export const volumeRestrictions = Scheduling.plugin({
  id: 'scheduling-volume-restrictions',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }): SchedulingPlugin {
    const claims = informers.of(persistentVolumeClaims);
    const key = Symbol('VolumeRestrictions');
    const change = (state: CycleState, { pod }: PodInfo, { pod: other }: PodInfo, by: 1 | -1) => {
      const kept = state.read<State>(key);
      if (kept === undefined || other.metadata?.namespace !== pod.metadata?.namespace) return;
      for (const { name } of claimsOf(other)) if (kept.exclusive.has(name)) kept.users += by;
    };
    return {
      name: 'VolumeRestrictions',
      requeueOn: [
        {
          kind: 'AssignedPod',
          on: ['deleted'],
          hint: (pod, old) =>
            hasDisk(pod) || claimsOf(pod).some(({ name }) => claimsOf(old as Pod).some((used) => used.name === name)) ? 'queue' : 'skip',
        },
        { kind: 'Node', on: ['added'] },
        { kind: 'PersistentVolumeClaim', on: ['added', 'updated'], hint: claimHint },
      ],
      ready: (signal) => claims.whenSynced(signal),
      preFilter(state, { pod }) {
        const uses = claimsOf(pod);
        if (uses.length === 0) return hasDisk(pod) ? success : skip;
        const namespace = pod.metadata?.namespace ?? '';
        const exclusive = new Set<string>();
        for (const { name, ephemeral } of uses) {
          const claim = claims.get(`${namespace}/${name}`);
          if (claim === undefined && !ephemeral) return notFound(name);
          if (claim?.spec?.accessModes?.includes('ReadWriteOncePod')) exclusive.add(name);
        }
        if (exclusive.size === 0) return hasDisk(pod) ? success : skip;
        let users = 0;
        for (const name of exclusive)
          for (const count of state.snapshot
            .count({
              key: `claim ${namespace}/${name}`,
              namespaces: new Set([namespace]),
              selects: (other) => claimsOf(other).some((use) => use.name === name),
            })
            .values())
            users += count;
        state.write<State>(key, { exclusive, users });
        return success;
      },
      addPod: (state, pod, added) => change(state, pod, added, 1),
      removePod: (state, pod, removed) => change(state, pod, removed, -1),
      filter(state, { pod }, { pods }) {
        if (hasDisk(pod))
          for (const volume of pod.spec?.volumes ?? [])
            for (const other of pods)
              if (other.pod.spec?.volumes?.some((theirs) => collides(volume, theirs)))
                return unschedulable('node(s) had no available disk');
        return (state.read<State>(key)?.users ?? 0) > 0
          ? unschedulable('node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode')
          : success;
      },
    };
  },
});
