import { objectKey } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import { compareQuantity } from '@oarlock/api/values/quantity';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { Events, Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';

const needsExpansion = ({ spec, status }: PersistentVolumeClaim) =>
  status?.phase === 'Bound' && compareQuantity(spec?.resources?.requests?.['storage'] ?? '0', status.capacity?.['storage'] ?? '0') > 0;

/**
 * Records an event on a PersistentVolumeClaim with an increased request: the external resizer of the CSI driver expands the volume. The
 * controller itself resizes no volumes.
 */
export default Controllers.plugin({
  id: 'controller-volume-expansion',
  declares: { loop: 'persistentvolume-expander' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events },
  create({ informers, events }) {
    const claims = informers.forResource(persistentVolumeClaims);
    const volumes = informers.forResource(persistentVolumes);
    const recorder = events.recorder('volume_expand');
    return {
      name: 'persistentvolume-expander',
      watches: [
        watch(volumes, () => []), // volumes are only read, but must have synced
        watch(claims, (claim, old) =>
          needsExpansion(claim) && (old === undefined || !needsExpansion(old) || claim.spec !== old.spec) ? [objectKey(claim)] : [],
        ),
      ],
      reconcile(key) {
        const claim = claims.get(key);
        const volume = claim && volumes.get(claim.spec?.volumeName ?? '');
        if (claim !== undefined && volume !== undefined && needsExpansion(claim) && volume.spec?.claimRef?.uid === claim.metadata?.uid)
          recorder.event(claim, 'Normal', 'ExternalExpanding', 'waiting for an external controller to expand this PVC');
        return Promise.resolve();
      },
    };
  },
});
