import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject, OwnerReference } from '@oarlock/api/object';
import { withMetadata } from '../../registry/strategy.ts';
import type { RequestContext } from '../request/request-context.ts';

/**
 * Removes owner references that equal an earlier one, and adds upstream's warning to the response. References with the same uid that differ
 * in another field are kept. `isAdmitted` is true after mutating admission, which has another text.
 */
export function withoutDuplicateOwners(object: KubeObject, context: RequestContext, isAdmitted: boolean): KubeObject {
  const references = object.metadata?.ownerReferences;
  if (references === undefined || references.length < 2) return object;
  const byUid = new Map<string, OwnerReference[]>();
  const kept: OwnerReference[] = [];
  const duplicates: string[] = [];
  for (const reference of references) {
    const uid = reference.uid ?? '';
    const same = byUid.get(uid) ?? [];
    if (same.some((other) => jsonEqual(other, reference))) {
      duplicates.push(uid);
      continue;
    }
    byUid.set(uid, [...same, reference]);
    kept.push(reference);
  }
  if (duplicates.length === 0) return object;
  context.warn(
    `.metadata.ownerReferences contains duplicate entries${isAdmitted ? ' after mutating admission happens' : ''}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: ${duplicates.join(', ')}`,
  );
  return withMetadata(object, { ownerReferences: kept });
}
