import { diffJson, formatPath } from '@oarlock/primitives/json-diff';
import type { KubeObject, ManagedFieldsEntry } from '../../../api/client.ts';
import { ownerOf } from './field-owner.ts';

/** A field that differs between two versions of an object. */
export interface FieldChange {
  readonly path: string;
  /** JSON; undefined if the field was absent. */
  readonly before: string | undefined;
  readonly after: string | undefined;
  /** The manager that owns the field, or owned it before it was removed. */
  readonly manager: ManagedFieldsEntry | undefined;
}

const maxValueLength = 200;

function valueText(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  const json = JSON.stringify(value);
  return json.length <= maxValueLength ? json : `${json.slice(0, maxValueLength)}…`;
}

/** Returns a path with the names or types of list items instead of their indexes, such as `status.conditions.Available`. */
function namedPath(object: unknown, path: readonly (string | number)[]): readonly (string | number)[] {
  let value = object;
  return path.map((key) => {
    value = (value as Readonly<Record<string | number, unknown>> | undefined)?.[key];
    if (typeof key !== 'number' || typeof value !== 'object' || value === null) return key;
    const { name, type } = value as { readonly name?: unknown; readonly type?: unknown };
    return typeof name === 'string' ? name : typeof type === 'string' ? type : key;
  });
}

/** Returns the fields that differ, without the type, which items of lists do not have, and without those that every write changes. */
export function fieldChanges(before: KubeObject, after: KubeObject): readonly FieldChange[] {
  const plain = ({ apiVersion: _apiVersion, kind: _kind, metadata, ...rest }: KubeObject) => {
    const { managedFields: _managed, resourceVersion: _version, generation: _generation, ...others } = metadata;
    return { ...rest, metadata: others };
  };
  return diffJson(plain(before), plain(after)).map((difference) => {
    const holder = difference.after === undefined ? before : after;
    return {
      path: formatPath(namedPath(holder, difference.path)),
      before: valueText(difference.before),
      after: valueText(difference.after),
      manager: ownerOf(holder.metadata.managedFields ?? [], holder, difference.path),
    };
  });
}
