import { persistentVolumeClaims, persistentVolumes, storageClasses } from '@oarlock/api/resources';
import type { PersistentVolume } from '@oarlock/api/types/core-v1';
import { Informers } from '@oarlock/spi/client';
import { Scheduling, skip, success, unschedulableAndUnresolvable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { isEqual } from '../../pod-info/pod-changes.ts';
import { nodeEvent } from '../helper/node-events.ts';
import { claimHint, claimsOf, classNameOf, claimNotFound } from './pod-volume-claims.ts';

const betaKeys: Readonly<Record<string, string>> = {
  'topology.kubernetes.io/zone': 'failure-domain.beta.kubernetes.io/zone',
  'topology.kubernetes.io/region': 'failure-domain.beta.kubernetes.io/region',
};
const topologyKeys = [...Object.keys(betaKeys), ...Object.values(betaKeys)];
const stableKeys: Readonly<Record<string, string>> = Object.fromEntries(Object.entries(betaKeys).map(([stable, beta]) => [beta, stable]));

const labelsOf = (volume: unknown) => (volume as PersistentVolume).metadata?.labels;

/** A topology label of a volume, with the values of which a node's label must have one. */
interface RequiredTopology {
  readonly key: string;
  readonly values: ReadonlySet<string>;
}

const requiredTopologies = ({ metadata }: PersistentVolume): readonly RequiredTopology[] =>
  topologyKeys.flatMap((key) => {
    const value = metadata?.labels?.[key];
    return value === undefined ? [] : [{ key, values: new Set(value.split('__')) }];
  });

/** The plugin VolumeZone: rejects nodes outside the zones and regions in the labels of the pod's volumes. */
export const volumeZone = Scheduling.plugin({
  id: 'scheduling-volume-zone',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }): SchedulingPlugin {
    const claims = informers.forResource(persistentVolumeClaims);
    const volumes = informers.forResource(persistentVolumes);
    const classes = informers.forResource(storageClasses);
    const preFilterKey = Symbol('VolumeZone');
    return {
      name: 'VolumeZone',
      eventsToRegister: [
        { kind: 'StorageClass', actions: ['added'] },
        nodeEvent(['labels']),
        { kind: 'PersistentVolumeClaim', actions: ['added', 'updated'], queueingHint: claimHint },
        {
          kind: 'PersistentVolume',
          actions: ['added', 'updated'],
          queueingHint: (_pod, old, now) => (old !== undefined && isEqual(labelsOf(old), labelsOf(now)) ? 'skip' : 'queue'),
        },
      ],
      async whenSynced(signal) {
        await Promise.all([claims.whenSynced(signal), volumes.whenSynced(signal), classes.whenSynced(signal)]);
      },
      preFilter(state, { pod }) {
        const required: RequiredTopology[] = [];
        for (const { name, ephemeral } of claimsOf(pod)) {
          if (ephemeral) continue; // as upstream, whose check covers claims of the pod's spec only
          const claim = claims.get(`${pod.metadata?.namespace}/${name}`);
          if (claim === undefined) return claimNotFound(name);
          const volumeName = claim.spec?.volumeName;
          if (!volumeName) {
            const className = classNameOf(claim);
            if (className === '') return unschedulableAndUnresolvable('PersistentVolumeClaim had no pv name and storageClass name');
            const found = classes.get(className);
            if (found === undefined)
              return unschedulableAndUnresolvable(`storageclass.storage.k8s.io ${JSON.stringify(className)} not found`);
            if (found.volumeBindingMode === undefined)
              return unschedulableAndUnresolvable(`VolumeBindingMode not set for StorageClass ${JSON.stringify(className)}`);
            if (found.volumeBindingMode === 'WaitForFirstConsumer') continue;
            return unschedulableAndUnresolvable('PersistentVolume had no name');
          }
          const volume = volumes.get(volumeName);
          if (volume === undefined) return unschedulableAndUnresolvable(`persistentvolume ${JSON.stringify(volumeName)} not found`);
          required.push(...requiredTopologies(volume));
        }
        if (required.length === 0) return skip;
        state.write(preFilterKey, required);
        return success;
      },
      filter(state, _pod, { node }) {
        const labels = node.metadata?.labels ?? {};
        // as upstream, a node without zone and region labels is accepted: the cluster has no zones
        if (!topologyKeys.some((key) => labels[key] !== undefined)) return success;
        for (const { key, values } of state.read<readonly RequiredTopology[]>(preFilterKey) ?? []) {
          // as upstream, the node's stable label substitutes a beta label of the volume, but not the reverse
          const value = labels[key] ?? labels[stableKeys[key] ?? ''];
          if (value === undefined || !values.has(value)) return unschedulableAndUnresolvable('node(s) had no available volume zone');
        }
        return success;
      },
    };
  },
});
