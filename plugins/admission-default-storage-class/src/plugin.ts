import { storageClasses } from '@oarlock/api/resources';
import { parseTime } from '@oarlock/api/values/time';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { StorageClass } from '@oarlock/api/types/storage-v1';
import { Admission, allow } from '@oarlock/spi/admission';
import { Client } from '@oarlock/spi/client';
import { z } from 'zod';

const defaultClassAnnotations = ['storageclass.kubernetes.io/is-default-class', 'storageclass.beta.kubernetes.io/is-default-class'];
const old = 'volume.beta.kubernetes.io/storage-class';
const creationTime = ({ metadata }: StorageClass) => parseTime(metadata?.creationTimestamp ?? '') ?? 0;
const nameOf = ({ metadata }: StorageClass) => metadata?.name ?? '';

/** Returns the name of the default StorageClass, or undefined. Among several defaults, the newest class wins, then the first by name. */
function defaultClassOf(classes: readonly StorageClass[]): string | undefined {
  const [first] = classes
    .filter(({ metadata }) => defaultClassAnnotations.some((mark) => metadata?.annotations?.[mark] === 'true'))
    .sort((a, b) => creationTime(b) - creationTime(a) || (nameOf(a) < nameOf(b) ? -1 : 1));
  return first && nameOf(first);
}

/** Sets the default StorageClass of PersistentVolumeClaims without a class (DefaultStorageClass). */
export default Admission.plugin({
  id: 'admission-default-storage-class',
  config: z.strictObject({}),
  needs: { client: Client },
  create: ({ client }) => ({
    matches: [{ resources: ['persistentvolumeclaims'], operations: ['CREATE'] }],
    async mutate({ object }) {
      if (object === undefined) return allow;
      const { spec, metadata }: PersistentVolumeClaim = object;
      // the empty string requests no class
      if (spec?.storageClassName !== undefined || metadata?.annotations?.[old] !== undefined) return object;
      const storageClassName = defaultClassOf((await client.list(storageClasses)).items);
      return storageClassName === undefined ? object : { ...object, spec: { ...spec, storageClassName } };
    },
  }),
});
