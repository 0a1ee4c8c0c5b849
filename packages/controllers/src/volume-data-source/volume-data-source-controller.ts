import { objectKey, type KubeObject } from '@oarlock/api/object';
import { resource } from '@oarlock/api/resource';
import { persistentVolumeClaims } from '@oarlock/api/resources';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { DiscoveredKinds } from '../discovered-kinds.ts';
import { typed } from '../pod-template.ts';

/** Says that somebody fills claims from objects of a kind (KEP-1495). */
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

/** What only a populator can fill a claim from: claims and snapshots are the provisioners' own. */
function foreignSource({ spec }: PersistentVolumeClaim): { readonly group: string; readonly kind: string } | undefined {
  const { apiGroup: group = '', kind = '' } = spec?.dataSourceRef ?? spec?.dataSource ?? {};
  return group === '' || (group === 'snapshot.storage.k8s.io' && kind === 'VolumeSnapshot') ? undefined : { group, kind };
}
const waits = (claim: PersistentVolumeClaim) => !claim.spec?.volumeName && foreignSource(claim) !== undefined;

/** Warns of claims that nobody has said to fill, where VolumePopulators are defined. The claims wait all the same: somebody may come. */
export default Controllers.plugin({
  id: 'controller-volume-data-source',
  declares: { loop: 'volume-data-source-validator' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events, client: Client },
  create({ informers, events, client: asking }, { clock, log }) {
    const claims = informers.of(persistentVolumeClaims);
    const kinds = DiscoveredKinds.of({ informers, client: asking, clock, log, random: Math.random });
    const recorder = events.recorder('data-source-validator');
    return {
      name: 'volume-data-source-validator',
      workers: 1,
      watches: [
        ...kinds.watches(),
        // what others note on a claim is no reason to warn again
        watch(claims, (claim, old) => (waits(claim) && (old === undefined || old === claim || !waits(old)) ? [objectKey(claim)] : [])),
      ],
      follow: () => kinds.on(),
      async reconcile(key, { client, signal }) {
        const claim = claims.get(key);
        const source = claim && waits(claim) ? foreignSource(claim) : undefined;
        if (claim === undefined || source === undefined) return;
        if (kinds.find(volumePopulators.group, volumePopulators.kind) === undefined) return;
        const { items } = await client.list(volumePopulators, { signal });
        if (items.some(({ sourceKind }) => sourceKind?.group === source.group && sourceKind.kind === source.kind)) return;
        recorder.event(
          typed(persistentVolumeClaims, claim),
          'Warning',
          'UnrecognizedDataSourceKind',
          'The data source for this PVC does not match any registered VolumePopulator',
        );
      },
    };
  },
});
