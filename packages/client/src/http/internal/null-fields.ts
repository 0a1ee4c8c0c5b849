import { kindOf } from '@oarlock/api/kinds';
import type { Resource } from '@oarlock/api/resource';

/** Kinds that contain arbitrary JSON, in which null may be a value. */
const hasArbitraryJson = ({ group, kind }: Resource): boolean =>
  group === 'resource.k8s.io' || kind === 'ControllerRevision' || kind === 'CustomResourceDefinition';

/** Returns true if null means absent in objects of this kind. Go encodes empty lists and maps as null (`"rules":null`), and decodes null as absent. */
export const mayIgnoreNulls = (resource: Resource): boolean => kindOf(resource) !== undefined && !hasArbitraryJson(resource);

/** Removes object members that are null, in place. */
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
