import { kindOf } from '@oarlock/api/kinds';
import type { Resource } from '@oarlock/api/resource';

/** Kinds that contain arbitrary JSON, in which null may be a value. */
const hasArbitraryJson = ({ group, kind }: Resource): boolean =>
  group === 'resource.k8s.io' || kind === 'ControllerRevision' || kind === 'CustomResourceDefinition';

/** Returns true if null means absent in objects of this kind. Go encodes empty lists and maps as null (`"rules":null`), and decodes null as absent. */
export const mayIgnoreNulls = (resource: Resource): boolean => kindOf(resource) !== undefined && !hasArbitraryJson(resource);

/** The null of each condition of a pod. A quote within a JSON string is escaped, so that the text matches members only. */
const conditionNull = /,"lastProbeTime":null|"lastProbeTime":null,/g;

/** Parses JSON without object members that are null. Only texts with other nulls than those of conditions require a walk over the value. */
export function parseWithoutNulls(text: string): unknown {
  if (!text.includes(':null')) return JSON.parse(text);
  const rest = text.replace(conditionNull, '');
  const value: unknown = JSON.parse(rest);
  if (rest.includes(':null')) dropNulls(value);
  return value;
}

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
