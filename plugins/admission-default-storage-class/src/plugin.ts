import { storageClasses } from '@oarlock/api/resources';
import { parseTime } from '@oarlock/api/time';
import type { PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { StorageClass } from '@oarlock/api/types/storage-v1';
import { Admission, allow } from '@oarlock/spi/admission';
import { Client } from '@oarlock/spi/client';
import { z } from 'zod';

const marks = ['storageclass.kubernetes.io/is-default-class', 'storageclass.beta.kubernetes.io/is-default-class'];
const old = 'volume.beta.kubernetes.io/storage-class';
const made = ({ metadata }: StorageClass) => parseTime(metadata?.creationTimestamp ?? '') ?? 0;
const nameOf = ({ metadata }: StorageClass) => metadata?.name ?? '';

/** The default class; the newest of several, then the first by name. */
function fallback(classes: readonly StorageClass[]): string | undefined {
  const [first] = classes
    .filter(({ metadata }) => marks.some((mark) => metadata?.annotations?.[mark] === 'true'))
    .sort((a, b) => made(b) - made(a) || (nameOf(a) < nameOf(b) ? -1 : 1));
  return first && nameOf(first);
}

/** Names the default StorageClass in claims that name none. */
export default Admission.plugin({
  id: 'admission-default-storage-class',
  config: z.strictObject({}),
  needs: { client: Client },
  create: ({ client }) => ({
    matches: [{ resources: ['persistentvolumeclaims'], operations: ['CREATE'] }],
    async mutate({ object }) {
      if (object === undefined) return allow;
      const { spec, metadata }: PersistentVolumeClaim = object;
      // '' asks for no class
      if (spec?.storageClassName !== undefined || metadata?.annotations?.[old] !== undefined) return object;
      const storageClassName = fallback((await client.list(storageClasses)).items);
      return storageClassName === undefined ? object : { ...object, spec: { ...spec, storageClassName } };
    },
  }),
});
