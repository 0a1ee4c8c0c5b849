import { Admission, allow } from '@oarlock/spi/admission';
import { z } from 'zod';

const finalizers: Readonly<Record<string, string>> = {
  persistentvolumeclaims: 'kubernetes.io/pvc-protection',
  persistentvolumes: 'kubernetes.io/pv-protection',
  volumeattributesclasses: 'kubernetes.io/vac-protection',
};

/**
 * Adds protection finalizers to PersistentVolumeClaims and PersistentVolumes (StorageObjectInUseProtection). Controllers remove the finalizer when
 * the object is not in use.
 */
export default Admission.plugin({
  id: 'admission-storage-object-in-use-protection',
  config: z.strictObject({
    /** True to also protect VolumeAttributesClasses, which requires the controller that removes their finalizer. */
    volumeAttributesClasses: z.boolean().default(false),
  }),
  create: ({ config }) => ({
    matches: [
      {
        resources: [
          'persistentvolumeclaims',
          'persistentvolumes',
          ...(config.volumeAttributesClasses ? ['volumeattributesclasses.storage.k8s.io'] : []),
        ],
        operations: ['CREATE'],
      },
    ],
    mutate({ object, resource }) {
      if (object === undefined) return allow;
      const finalizer = finalizers[resource.resource] ?? '';
      const held = object.metadata?.finalizers ?? [];
      return held.includes(finalizer) ? object : { ...object, metadata: { ...object.metadata, finalizers: [...held, finalizer] } };
    },
  }),
});
