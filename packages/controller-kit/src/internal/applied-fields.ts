import { isObject, jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';

type Fields = Readonly<Record<string, unknown>>;

/** The field manager and subresource of an apply request. */
export interface ApplyTarget {
  readonly fieldManager: string;
  /** The subresource; '' for the object itself. */
  readonly subresource: string;
}

/** Fields of an apply configuration that identify the object and have no manager. */
const identity: ReadonlySet<string> = new Set(['apiVersion', 'kind']);
const identityOfMetadata: ReadonlySet<string> = new Set(['name', 'namespace']);
const none: ReadonlySet<string> = new Set();

/**
 * Returns true if applying the configuration again would change nothing: the manager owns exactly its fields, and they have its values. May return false
 * although nothing would change, for example if the server stores a value in another notation.
 */
export function isApplied(configuration: KubeObject, stored: KubeObject, { fieldManager, subresource }: ApplyTarget): boolean {
  const entry = stored.metadata?.managedFields?.find(
    (each) =>
      each.manager === fieldManager &&
      each.operation === 'Apply' &&
      (each.subresource ?? '') === subresource &&
      each.apiVersion === configuration.apiVersion,
  );
  if (entry === undefined) return false;
  const { metadata, ...rest } = configuration as KubeObject & Record<string, unknown>;
  const { 'f:metadata': ofMetadata = {}, ...ofRest } = (entry.fieldsV1 ?? {}) as Fields;
  const { metadata: storedMetadata, ...storedRest } = stored as KubeObject & Record<string, unknown>;
  return (
    matchesObject({ fields: ofMetadata as Fields, ignored: identityOfMetadata }, metadata ?? {}, storedMetadata) &&
    matchesObject({ fields: ofRest, ignored: identity }, rest, storedRest)
  );
}

function matches(fields: Fields, desired: unknown, stored: unknown): boolean {
  const isLeaf = Object.keys(fields).every((name) => name === '.');
  if (isLeaf) return jsonEqual(desired, stored);
  if (Array.isArray(desired)) return Array.isArray(stored) && matchesList(fields, desired, stored);
  return isObject(desired) && isObject(stored) && matchesObject({ fields, ignored: none }, desired, stored);
}

function matchesObject(
  { fields, ignored }: { readonly fields: Fields; readonly ignored: ReadonlySet<string> },
  desired: object,
  stored: unknown,
): boolean {
  if (!isObject(stored)) return false;
  const configured = Object.entries(desired).filter(([name]) => !ignored.has(name));
  const owned = Object.keys(fields).filter((name) => name !== '.');
  return (
    owned.length === configured.length && // an owned field that is not configured would be removed
    configured.every(([name, value]) => {
      const below = fields[`f:${name}`];
      return isObject(below) && matches(below, value, stored[name]);
    })
  );
}

/** Compares a list whose items have managers. */
function matchesList(fields: Fields, desired: readonly unknown[], stored: readonly unknown[]): boolean {
  const owned = Object.entries(fields).filter(([name]) => name !== '.');
  if (owned.length !== desired.length) return false;
  const rest = [...desired];
  return owned.every(([name, below]) => {
    if (!isObject(below) || !/^[vk]:/.test(name)) return false;
    const identity: unknown = JSON.parse(name.slice(2));
    const indexOf = (list: readonly unknown[]) =>
      name.startsWith('v:') ? list.findIndex((item) => jsonEqual(item, identity)) : indexOfItem(list, identity as Fields);
    const index = indexOf(rest);
    const [item] = index < 0 ? [] : rest.splice(index, 1);
    const present = stored[indexOf(stored)];
    return item !== undefined && present !== undefined && (name.startsWith('v:') || matches(below, item, present));
  });
}

/** Returns the index of the item with the keys. An item without a key has the default of the key, if no other item has its value. */
function indexOfItem(list: readonly unknown[], keys: Fields): number {
  const matching = (isKey: (value: unknown, key: unknown) => boolean) =>
    list.findIndex((item) => isObject(item) && Object.entries(keys).every(([name, key]) => isKey(item[name], key)));
  const exact = matching(jsonEqual);
  return exact >= 0 ? exact : matching((value, key) => value === undefined || jsonEqual(value, key));
}
