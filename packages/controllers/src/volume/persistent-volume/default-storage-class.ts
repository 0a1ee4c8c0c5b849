import type { StorageClass } from '@oarlock/api/types/storage-v1';

const isDefault = 'storageclass.kubernetes.io/is-default-class';

/** Orders StorageClasses from new to old. Classes of the same second are ordered by name. */
function byAge({ metadata: a }: StorageClass, { metadata: b }: StorageClass): number {
  const [ofA, ofB] = [a?.creationTimestamp ?? '', b?.creationTimestamp ?? ''];
  if (ofA !== ofB) return ofA > ofB ? -1 : 1;
  return (a?.name ?? '') < (b?.name ?? '') ? -1 : 1;
}

/** Returns the name of the newest default StorageClass, or undefined if there is none. */
export const defaultStorageClass = (classes: readonly StorageClass[]): string | undefined =>
  classes.filter(({ metadata }) => metadata?.annotations?.[isDefault] === 'true').toSorted(byAge)[0]?.metadata?.name;
