import { controllerOf, type ObjectKey } from '@oarlock/api/object';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { KubeObject } from '@oarlock/api/object';
import { objectKey } from '@oarlock/api/object';

interface Candidates {
  of(namespace: string, labels: Readonly<Record<string, string>> | undefined): readonly KubeObject[];
}

/** Keys of the owners that a change of a pod is of interest to: the one it has, the one it had, and those that may adopt it. */
export function ownerKeys(kind: string, candidates: Candidates, pod: Pod, old: Pod | undefined): Iterable<ObjectKey> {
  const namespace = pod.metadata?.namespace ?? '';
  const owner = controllerOf(pod);
  if (owner !== undefined && (old === undefined || controllerOf(old)?.uid === owner.uid))
    return owner.kind === kind ? [`${namespace}/${owner.name}`] : [];
  const keys = new Set<ObjectKey>();
  const before = old && controllerOf(old);
  for (const ref of [owner, before]) if (ref?.kind === kind) keys.add(`${namespace}/${ref.name}`);
  if (owner === undefined) for (const candidate of candidates.of(namespace, pod.metadata?.labels)) keys.add(objectKey(candidate));
  return keys;
}
