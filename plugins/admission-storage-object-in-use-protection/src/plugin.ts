import { Admission, allow } from '@oarlock/spi/admission';
import { z } from 'zod';

const finalizers: Readonly<Record<string, string>> = {
  persistentvolumeclaims: 'kubernetes.io/pvc-protection',
  persistentvolumes: 'kubernetes.io/pv-protection',
  volumeattributesclasses: 'kubernetes.io/vac-protection',
};

/** Keeps claims and volumes that are in use from going away: their controllers take the finalizer off when nobody uses them any more. */
export default Admission.plugin({
  id: 'admission-storage-object-in-use-protection',
  config: z.strictObject({
    /** VolumeAttributesClasses, too: only where a controller takes their finalizer off again. */
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
