import { objectKey } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { compareQuantity } from '@oarlock/api/quantity';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { Events, Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

const wantsMore = ({ spec, status }: PersistentVolumeClaim) =>
  status?.phase === 'Bound' && compareQuantity(spec?.resources?.requests?.['storage'] ?? '0', status.capacity?.['storage'] ?? '0') > 0;

/** Tells who asks for more room that a resizer of the driver has to give it: no kind of volume is resized from here. */
export default Controllers.plugin({
  id: 'controller-volume-expansion',
  declares: { loop: 'persistentvolume-expander' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create({ informers, events }) {
    const claims = informers.of(persistentVolumeClaims);
    const volumes = informers.of(persistentVolumes);
    const recorder = events.recorder('volume_expand');
    return {
      name: 'persistentvolume-expander',
      watches: [
        watch(volumes, () => []), // only asked, but it has to be there first
        watch(claims, (claim, old) =>
          wantsMore(claim) && (old === undefined || !wantsMore(old) || claim.spec !== old.spec) ? [objectKey(claim)] : [],
        ),
      ],
      reconcile(key) {
        const claim = claims.get(key);
        const volume = claim && volumes.get(claim.spec?.volumeName ?? '');
        if (claim !== undefined && volume !== undefined && wantsMore(claim) && volume.spec?.claimRef?.uid === claim.metadata?.uid)
          recorder.event(claim, 'Normal', 'ExternalExpanding', 'waiting for an external controller to expand this PVC');
        return Promise.resolve();
      },
    };
  },
});
