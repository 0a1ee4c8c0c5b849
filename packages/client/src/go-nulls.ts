import { kindOf } from '@oarlock/api/kinds';
import type { Resource } from '@oarlock/api/resource';

/** They hold JSON that somebody else made, in which null may be a value. */
const holdsOthers = ({ group, kind }: Resource): boolean =>
  group === 'resource.k8s.io' || kind === 'ControllerRevision' || kind === 'CustomResourceDefinition';

/** Whether null says nothing in objects of this kind. Go writes lists and maps that are empty so (`"rules":null`), and reads them as if left out. */
export const nullsSayNothing = (resource: Resource): boolean => kindOf(resource) !== undefined && !holdsOthers(resource);

/** Takes members that are null out of a parsed text, in place. */
export function dropNulls(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    for (const item of value) dropNulls(item);
    return;
  }
  const members = value as Record<string, unknown>;
  for (const key of Object.keys(members)) {
    if (members[key] === null) delete members[key];
    else dropNulls(members[key]);
  }
}
