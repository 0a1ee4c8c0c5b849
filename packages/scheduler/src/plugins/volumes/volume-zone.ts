import { persistentVolumeClaims, persistentVolumes, storageClasses } from '@oarlock/api/resources';
import type { PersistentVolume } from '@oarlock/api/types/core-v1';
import { Informers } from '@oarlock/spi/client';
import { Scheduling, skip, success, unresolvable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { same } from '../../pod-changes.ts';
import { onNode } from '../node-changes.ts';
import { claimHint, claimsOf, classNameOf, notFound } from './claims.ts';

const betaOf: Readonly<Record<string, string>> = {
  'topology.kubernetes.io/zone': 'failure-domain.beta.kubernetes.io/zone',
  'topology.kubernetes.io/region': 'failure-domain.beta.kubernetes.io/region',
};
const topologyKeys = [...Object.keys(betaOf), ...Object.values(betaOf)];
const plainOf = Object.fromEntries(
  Object.entries(betaOf).flatMap(([plain, beta]) => [
    [plain, beta],
    [beta, plain],
  ]),
);

const labelsOf = (volume: unknown) => (volume as PersistentVolume).metadata?.labels;

interface Wanted {
  readonly key: string;
  readonly values: ReadonlySet<string>;
}

/** Volumes that are labelled with zones are used there only. */
export const volumeZone = Scheduling.plugin({
  id: 'scheduling-volume-zone',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }): SchedulingPlugin {
    const claims = informers.of(persistentVolumeClaims);
    const volumes = informers.of(persistentVolumes);
    const classes = informers.of(storageClasses);
    const state = Symbol('VolumeZone');
    return {
      name: 'VolumeZone',
      requeueOn: [
        { kind: 'StorageClass', on: ['added'] },
        onNode(['labels']),
        { kind: 'PersistentVolumeClaim', on: ['added', 'updated'], hint: claimHint },
        {
          kind: 'PersistentVolume',
          on: ['added', 'updated'],
          hint: (_pod, old, now) => (old !== undefined && same(labelsOf(old), labelsOf(now)) ? 'skip' : 'queue'),
        },
      ],
      async ready(signal) {
        await Promise.all([claims.whenSynced(signal), volumes.whenSynced(signal), classes.whenSynced(signal)]);
      },
      preFilter(cycle, { pod }) {
        const wanted: Wanted[] = [];
        for (const { name } of claimsOf(pod)) {
          const claim = claims.get(`${pod.metadata?.namespace}/${name}`);
          if (claim === undefined) return notFound(name);
          const volumeName = claim.spec?.volumeName;
          if (!volumeName) {
            const className = classNameOf(claim);
            if (className === '') return unresolvable('PersistentVolumeClaim had no pv name and storageClass name');
            const found = classes.get(className);
            if (found === undefined) return unresolvable(`storageclasses.storage.k8s.io ${JSON.stringify(className)} not found`);
            if (found.volumeBindingMode === undefined)
              return unresolvable(`VolumeBindingMode not set for StorageClass ${JSON.stringify(className)}`);
            if (found.volumeBindingMode === 'WaitForFirstConsumer') continue;
            return unresolvable('PersistentVolume had no name');
          }
          const volume = volumes.get(volumeName);
          if (volume === undefined) return unresolvable(`persistentvolumes ${JSON.stringify(volumeName)} not found`);
          for (const key of topologyKeys) {
            const value = volume.metadata?.labels?.[key];
            if (value !== undefined) wanted.push({ key, values: new Set(value.split('__')) });
          }
        }
        if (wanted.length === 0) return skip;
        cycle.write(state, wanted);
        return success;
      },
      filter(cycle, _pod, { node }) {
        const labels = node.metadata?.labels ?? {};
        // a node without any zone is of a cluster without zones
        if (!topologyKeys.some((key) => labels[key] !== undefined)) return success;
        for (const { key, values } of cycle.read<readonly Wanted[]>(state) ?? []) {
          const value = labels[key] ?? labels[plainOf[key] ?? ''];
          if (value === undefined || !values.has(value)) return unresolvable('node(s) had no available volume zone');
        }
        return success;
      },
    };
  },
});
