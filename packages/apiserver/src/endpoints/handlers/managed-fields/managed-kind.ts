import { BuiltinTypes } from '@oarlock/api/managed-fields/builtin-type';
import { FieldManager } from '@oarlock/api/managed-fields/field-manager';
import type { FieldSet } from '@oarlock/api/managed-fields/field-set';
import type { FieldType } from '@oarlock/api/managed-fields/field-type';
import type { ManagedKind } from '@oarlock/api/managed-fields/managed-kind';
import { parseApiVersion } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { isStatus } from '@oarlock/api/status';
import { decodeBody } from '../../request/body.ts';
import { resetFieldsOf } from './reset-fields.ts';
import type { RegistryDependencies } from '../../../registry/registry-dependencies.ts';
import { withDefaults, type ServedKind } from '../../../registry/served-kind.ts';

/** The field types of all built-in kinds, for server-side apply. */
export const builtinTypes = new BuiltinTypes();

const fieldManagers = new WeakMap<ServedKind, Map<string, FieldManager>>();

/** Returns the field manager of a kind and subresource; the subresource is '' for the object itself. */
export function fieldManagerOf(registry: RegistryDependencies, kind: ServedKind, subresource: string): FieldManager {
  let ofKind = fieldManagers.get(kind);
  if (ofKind === undefined) fieldManagers.set(kind, (ofKind = new Map()));
  let manager = ofKind.get(subresource);
  if (manager === undefined) ofKind.set(subresource, (manager = new FieldManager(new FieldManagedKind(registry, kind, subresource))));
  return manager;
}

const fieldTypeOf = ({ fieldType, schema }: ServedKind): FieldType | undefined => fieldType ?? (schema && builtinTypes.of(schema));

class FieldManagedKind implements ManagedKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly apiVersion: string;
  readonly subresource: string;
  readonly mayChangeAtomicity: boolean;
  readonly #registry: RegistryDependencies;
  readonly #kind: ServedKind;
  readonly #resets = new Map<string, FieldSet>();

  constructor(registry: RegistryDependencies, kind: ServedKind, subresource: string) {
    const { gvk, apiVersion } = kind;
    this.group = gvk.group;
    this.version = gvk.version;
    this.kind = gvk.kind;
    this.apiVersion = apiVersion;
    this.subresource = subresource;
    this.mayChangeAtomicity = kind.schema === undefined;
    this.#registry = registry;
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
    // conversion by webhook is asynchronous and cannot be used here; versions of custom resources mostly differ in apiVersion only
    if (this.#kind.customResource !== undefined) return { ...object, apiVersion };
    if (from === undefined || to === undefined) throw new Error(`no conversion from ${object.apiVersion ?? ''} to ${apiVersion}`);
    const stored = from.conversion?.toStored(object) ?? object;
    return to.conversion?.fromStored(stored) ?? stored;
  }

  resetFields(apiVersion: string): FieldSet {
    let resets = this.#resets.get(apiVersion);
    if (resets === undefined) {
      const kind = this.#served(apiVersion) ?? this.#kind;
      this.#resets.set(apiVersion, (resets = resetFieldsOf(kind, this.subresource, fieldTypeOf(kind))));
    }
    return resets;
  }

  complete(object: KubeObject, now: number): KubeObject {
    return withDefaults(this.#kind, decodeBody(object, this.#kind), now);
  }

  /** Returns the kind of the same resource in another served version; undefined if the version is not served. */
  #served(apiVersion: string): ServedKind | undefined {
    if (apiVersion === this.apiVersion) return this.#kind;
    const { group, version } = parseApiVersion(apiVersion);
    try {
      const other = this.#registry.servedKind(group, version, this.#kind.resource.resource);
      return other.storedKind === this.#kind.storedKind ? other : undefined;
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }
}
