import { controllerOf, objectKey, type KubeObject, type ObjectKey } from '@oarlock/api/object';

interface OwnerLookup {
  of(namespace: string, labels: Readonly<Record<string, string>> | undefined): readonly KubeObject[];
}

/** The owners that may match, and the object with its old form. */
export interface OwnerChange {
  readonly candidates: OwnerLookup;
  readonly object: KubeObject;
  readonly old: KubeObject | undefined;
}

/**
 * Returns the keys of the owners that a change of a dependent affects: the dependent's controller and its former controller; for an orphan,
 * the owners that may adopt it.
 */
export function ownerKeys(kind: string, { candidates, object, old }: OwnerChange): Iterable<ObjectKey> {
  const namespace = object.metadata?.namespace ?? '';
  const owner = controllerOf(object);
  if (owner !== undefined && (old === undefined || controllerOf(old)?.uid === owner.uid))
    return owner.kind === kind ? [`${namespace}/${owner.name}`] : [];
  const keys = new Set<ObjectKey>();
  const before = old && controllerOf(old);
  for (const ref of [owner, before]) if (ref?.kind === kind) keys.add(`${namespace}/${ref.name}`);
  if (owner === undefined) for (const candidate of candidates.of(namespace, object.metadata?.labels)) keys.add(objectKey(candidate));
  return keys;
}
