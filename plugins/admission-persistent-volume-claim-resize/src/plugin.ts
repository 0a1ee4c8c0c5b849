import { compareQuantity } from '@oarlock/api/values/quantity';
import { storageClasses } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { Client } from '@oarlock/spi/client';
import { z } from 'zod';

const sizeOf = ({ spec }: PersistentVolumeClaim) => spec?.resources?.requests?.['storage'] ?? '0';
const classOf = ({ spec, metadata }: PersistentVolumeClaim) =>
  metadata?.annotations?.['volume.beta.kubernetes.io/storage-class'] ?? spec?.storageClassName ?? '';

/**
 * Allows the expansion of a PersistentVolumeClaim only if it is bound and its StorageClass has allowVolumeExpansion
 * (PersistentVolumeClaimResize).
 */
export default Admission.plugin({
  id: 'admission-persistent-volume-claim-resize',
  config: z.strictObject({}),
  needs: { client: Client },
  create({ client }) {
    const expandable = async (name: string): Promise<boolean> => {
      try {
        return (await client.get(storageClasses, { name })).allowVolumeExpansion === true;
      } catch (error) {
        if (isStatus(error, 'NotFound')) return false;
        throw error;
      }
    };
    return {
      matches: [{ resources: ['persistentvolumeclaims'], operations: ['UPDATE'] }],
      async validate({ object, old }) {
        if (object === undefined || old === undefined) return allow;
        const [next, before]: [PersistentVolumeClaim, PersistentVolumeClaim] = [object, old];
        if (compareQuantity(sizeOf(next), sizeOf(before)) <= 0) return allow;
        if (before.status?.phase !== 'Bound') return deny('Only bound persistent volume claims can be expanded');
        const name = classOf(next);
        return name !== '' && name === classOf(before) && (await expandable(name))
          ? allow
          : deny('only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize');
      },
    };
  },
});
