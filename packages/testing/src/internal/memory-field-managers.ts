import { BuiltinTypes } from '@oarlock/api/managed-fields/builtin-type';
import { differInTimesAlone, FieldManager } from '@oarlock/api/managed-fields/field-manager';
import { FieldSet } from '@oarlock/api/managed-fields/field-set';
import type { FieldType } from '@oarlock/api/managed-fields/field-type';
import { openApiType } from '@oarlock/api/managed-fields/openapi-type';
import { stripSet } from '@oarlock/api/managed-fields/strip-meta';
import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf, groupResource, type Resource } from '@oarlock/api/resource';
import { customResourceDefinitions } from '@oarlock/api/resources';
import { schemaOf } from '@oarlock/api/schema/schema';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { hasStatus } from './memory-strategy.ts';
import type { MemoryStore } from './memory-store.ts';

const builtinTypes = new BuiltinTypes();
const statusFields = FieldSet.of(['f:status']).union(stripSet);
const fieldsBesideStatus = FieldSet.of(['f:spec'], ['f:metadata']).union(stripSet);

/** Server-side apply of the memory API. Only applied configurations have field managers; other writes keep the managers that exist. */
export class MemoryFieldManagers {
  readonly #store: MemoryStore;

  constructor(store: MemoryStore) {
    this.#store = store;
  }

  /**
   * Returns the object after an apply request. Returns `live` if nothing changes.
   * @throws StatusError Conflict if another manager owns a changed field; BadRequest if the configuration is invalid
   */
  apply({ resource, subresource, query, body }: ApiRequest, live: KubeObject | undefined, now: number): KubeObject {
    const manager = this.#managerOf(resource, subresource);
    const applied = manager.apply(live, body, query['fieldManager'] ?? '', query['force'] === 'true', now);
    if (live === undefined || !differInTimesAlone(live.metadata?.managedFields, applied.metadata?.managedFields)) return applied;
    const bare = (object: KubeObject) => ({ ...object, metadata: { ...object.metadata, managedFields: undefined } });
    return jsonEqual(bare(applied), bare(live)) ? live : applied;
  }

  #managerOf(resource: Resource, subresource: string): FieldManager {
    const apiVersion = apiVersionOf(resource);
    const { group, version, kind } = resource;
    return new FieldManager({
      group,
      version,
      kind,
      apiVersion,
      subresource,
      typeOf: (other) => (other === apiVersion ? this.#typeOf(resource) : undefined),
      convert: (object, other) => ({ ...object, apiVersion: other }),
      resetFields: () => (subresource === 'status' ? fieldsBesideStatus : hasStatus(resource) ? statusFields : stripSet),
      mayChangeAtomicity: false,
      complete: (object) => object,
    });
  }

  /** Returns the type of a kind. The type of a custom resource comes from its definition, if the memory API has it, and otherwise from the values. */
  #typeOf(resource: Resource): FieldType {
    const { group, version, kind } = resource;
    const builtin = schemaOf({ group, version, kind });
    if (builtin !== undefined) return builtinTypes.of(builtin);
    const definition = this.#store.get(customResourceDefinitions as Resource, groupResource(resource)) as
      | CustomResourceDefinition
      | undefined;
    const schema = definition?.spec.versions.find(({ name }) => name === version)?.schema?.openAPIV3Schema;
    return openApiType(schema as Parameters<typeof openApiType>[0], builtinTypes.objectMeta());
  }
}
