import { BuiltinTypes } from '@oarlock/api/managed-fields/builtin-type';
import { FieldManager } from '@oarlock/api/managed-fields/field-manager';
import type { FieldSet } from '@oarlock/api/managed-fields/field-set';
import type { FieldType } from '@oarlock/api/managed-fields/field-type';
import type { ManagedKind } from '@oarlock/api/managed-fields/managed-kind';
import { parseApiVersion } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { isStatus } from '@oarlock/api/status';
import { decodeBody } from './body.ts';
import { resetsOf } from './managed-fields-resets.ts';
import type { Machinery } from './machinery.ts';
import { completed, type ServedKind } from './served-kind.ts';

/** The types of all built-in kinds. */
export const builtinTypes = new BuiltinTypes();

const managers = new WeakMap<ServedKind, Map<string, FieldManager>>();

/** Who keeps `managedFields` where objects of a kind are written by a subresource, '' for the object itself. */
export function fieldManagerOf(machinery: Machinery, kind: ServedKind, subresource: string): FieldManager {
  let ofKind = managers.get(kind);
  if (ofKind === undefined) managers.set(kind, (ofKind = new Map()));
  let manager = ofKind.get(subresource);
  if (manager === undefined) ofKind.set(subresource, (manager = new FieldManager(new ManagedServedKind(machinery, kind, subresource))));
  return manager;
}

const fieldTypeOf = ({ fieldType, schema }: ServedKind): FieldType | undefined => fieldType ?? (schema && builtinTypes.of(schema));

class ManagedServedKind implements ManagedKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly apiVersion: string;
  readonly subresource: string;
  readonly evolves: boolean;
  readonly #machinery: Machinery;
  readonly #kind: ServedKind;
  readonly #resets = new Map<string, FieldSet>();

  constructor(machinery: Machinery, kind: ServedKind, subresource: string) {
    const { gvk, apiVersion } = kind;
    this.group = gvk.group;
    this.version = gvk.version;
    this.kind = gvk.kind;
    this.apiVersion = apiVersion;
    this.subresource = subresource;
    this.evolves = kind.schema === undefined;
    this.#machinery = machinery;
    this.#kind = kind;
  }

  typeOf(apiVersion: string): FieldType | undefined {
    const kind = this.#served(apiVersion);
    return kind && fieldTypeOf(kind);
  }

  convert(object: KubeObject, apiVersion: string): KubeObject {
    if (object.apiVersion === apiVersion) return object;
    const from = this.#served(object.apiVersion ?? '');
    const to = this.#served(apiVersion);
    // what a webhook would make of it cannot be waited for here: the versions of custom resources mostly differ in their names alone
    if (this.#kind.custom !== undefined) return { ...object, apiVersion };
    if (from === undefined || to === undefined) throw new Error(`no conversion from ${object.apiVersion ?? ''} to ${apiVersion}`);
    const stored = from.conversion?.toStored(object) ?? object;
    return to.conversion?.fromStored(stored) ?? stored;
  }

  resets(apiVersion: string): FieldSet {
    let resets = this.#resets.get(apiVersion);
    if (resets === undefined) {
      const kind = this.#served(apiVersion) ?? this.#kind;
      this.#resets.set(apiVersion, (resets = resetsOf(kind, this.subresource, fieldTypeOf(kind))));
    }
    return resets;
  }

  complete(object: KubeObject): KubeObject {
    return completed(this.#kind, decodeBody(object, this.#kind));
  }

  /** The same resource in another version. */
  #served(apiVersion: string): ServedKind | undefined {
    if (apiVersion === this.apiVersion) return this.#kind;
    const { group, version } = parseApiVersion(apiVersion);
    try {
      const other = this.#machinery.kind(group, version, this.#kind.resource.resource);
      return other.store === this.#kind.store ? other : undefined;
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }
}
