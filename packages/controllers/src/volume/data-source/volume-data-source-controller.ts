import { objectKey, type KubeObject } from '@oarlock/api/object';
import { resource } from '@oarlock/api/resource';
import { persistentVolumeClaims } from '@oarlock/api/resources';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { DiscoveredKinds } from '../../discovery/discovered-kinds.ts';
import { withTypeMeta } from '../../objects/object-identity.ts';

/** A VolumePopulator object: registers a kind of data source from which a volume populator fills PersistentVolumeClaims (KEP-1495). */
export interface VolumePopulator extends KubeObject {
  readonly sourceKind?: { readonly group?: string; readonly kind?: string };
}
export const volumePopulators = resource<VolumePopulator>(
  'populator.storage.k8s.io',
  'v1beta1',
  'volumepopulators',
  'VolumePopulator',
  false,
);

/**
 * Returns the data source of a claim if only a volume populator can handle it. Returns undefined for claims and snapshots, which provisioners
 * handle.
 */
function populatorSource({ spec }: PersistentVolumeClaim): { readonly group: string; readonly kind: string } | undefined {
  const { apiGroup: group = '', kind = '' } = spec?.dataSourceRef ?? spec?.dataSource ?? {};
  return group === '' || (group === 'snapshot.storage.k8s.io' && kind === 'VolumeSnapshot') ? undefined : { group, kind };
}
const isPendingClaim = (claim: PersistentVolumeClaim) => !claim.spec?.volumeName && populatorSource(claim) !== undefined;

/**
 * Records a Warning event on PersistentVolumeClaims whose data source has no VolumePopulator, if the cluster has the VolumePopulator API. A
 * populator may be registered later.
 */
export default Controllers.plugin({
  id: 'controller-volume-data-source',
  declares: { loop: 'volume-data-source-validator' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events, client: Client },
  create({ informers, events, client: discoveryClient }, { clock, log }) {
    const claims = informers.forResource(persistentVolumeClaims);
    const kinds = DiscoveredKinds.shared({ informers, client: discoveryClient, clock, log, random: Math.random });
    const recorder = events.recorder('data-source-validator');
    return {
      name: 'volume-data-source-validator',
      concurrentReconciles: 1,
      watches: [
        ...kinds.watches(),
        // changes that do not affect the data source cause no second warning
        watch(claims, (claim, old) =>
          isPendingClaim(claim) && (old === undefined || old === claim || !isPendingClaim(old)) ? [objectKey(claim)] : [],
        ),
      ],
      addDynamicWatches: () => kinds.on(),
      async reconcile(key, { client, signal }) {
        const claim = claims.get(key);
        const source = claim && isPendingClaim(claim) ? populatorSource(claim) : undefined;
        if (claim === undefined || source === undefined) return;
        if (kinds.find(volumePopulators.group, volumePopulators.kind) === undefined) return;
        const { items } = await client.list(volumePopulators, { signal });
        if (items.some(({ sourceKind }) => sourceKind?.group === source.group && sourceKind.kind === source.kind)) return;
        recorder.event(
          withTypeMeta(persistentVolumeClaims, claim),
          'Warning',
          'UnrecognizedDataSourceKind',
          'The data source for this PVC does not match any registered VolumePopulator',
        );
      },
    };
  },
});
