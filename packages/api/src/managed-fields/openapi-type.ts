import { atomicType, deducedType, plainField, type Field, type FieldType, type ListType, type MapType } from './field-type.ts';

/** The parts of an OpenAPI v3 schema, as in a CustomResourceDefinition, that determine how values merge. */
export interface OpenApiSchema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, OpenApiSchema>>;
  /** CustomResourceDefinitions also allow `true`: values of any type. */
  readonly additionalProperties?: OpenApiSchema | boolean;
  readonly items?: OpenApiSchema | { readonly schema?: OpenApiSchema };
  readonly default?: unknown;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
  readonly 'x-kubernetes-int-or-string'?: boolean;
  readonly 'x-kubernetes-embedded-resource'?: boolean;
  readonly 'x-kubernetes-list-type'?: string;
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
  readonly 'x-kubernetes-map-type'?: string;
}

const noMetadata = Object.freeze({});
const known = new WeakMap<OpenApiSchema, FieldType>();

/**
 * Returns the merge type of a kind with an OpenAPI v3 schema. Types of unknown fields that the schema preserves are deduced from their
 * values; without a schema, so is the type of the whole object. `objectMeta` is the type of `metadata`, at the root and of embedded resources.
 */
export function openApiType(schema: OpenApiSchema | undefined, objectMeta: FieldType): FieldType {
  return new Reader(objectMeta).root(schema);
}

class Reader {
  readonly #objectMeta: FieldType;
  constructor(objectMeta: FieldType) {
    this.#objectMeta = objectMeta;
  }

  root(schema: OpenApiSchema | undefined): FieldType {
    const type = schema === undefined ? deducedType : this.#read(schema);
    return { map: this.#asObject(type.map ?? { atomic: false, fields: new Map(), values: deducedType, standing: [] }, this.#objectMeta) };
  }

  #asObject(map: MapType, metadata: FieldType): MapType {
    const fields = new Map(map.fields);
    for (const name of ['apiVersion', 'kind']) fields.set(name, plainField(name, { scalar: 'string' }));
    const field: Field = { ...plainField('metadata', metadata), standing: noMetadata };
    fields.set('metadata', field);
    return { ...map, atomic: false, fields, standing: [field] };
  }

  #type(schema: OpenApiSchema): FieldType {
    let type = known.get(schema);
    if (type === undefined) known.set(schema, (type = this.#read(schema)));
    return type;
  }

  #read(schema: OpenApiSchema): FieldType {
    const free = schema['x-kubernetes-preserve-unknown-fields'] === true;
    if (schema['x-kubernetes-int-or-string'] === true) return { scalar: 'untyped' };
    switch (schema.type) {
      case 'object': {
        const map = this.#map(schema, free);
        return { map: schema['x-kubernetes-embedded-resource'] === true ? this.#asObject(map, this.#objectMeta) : map };
      }
      case 'array':
        return { list: this.#list(schema) };
      case 'string':
      case 'boolean':
        return { scalar: schema.type };
      case 'integer':
      case 'number':
        return { scalar: 'number' };
      default:
        return free ? deducedType : atomicType;
    }
  }

  #map({ properties, additionalProperties, ...schema }: OpenApiSchema, free: boolean): MapType {
    const fields = new Map<string, Field>();
    for (const name of Object.keys(properties ?? {})) {
      const property = properties?.[name] ?? {};
      fields.set(name, plainField(name, this.#type(property), property.default));
    }
    const others = typeof additionalProperties === 'object' ? this.#type(additionalProperties) : undefined;
    const untyped = properties === undefined && additionalProperties === undefined;
    return {
      atomic: schema['x-kubernetes-map-type'] === 'atomic',
      fields,
      values: others ?? (free ? deducedType : additionalProperties === true ? deducedType : untyped ? atomicType : undefined),
      standing: [],
    };
  }

  #list(schema: OpenApiSchema): ListType {
    const { items } = schema;
    const item = items === undefined ? undefined : 'schema' in items ? items.schema : (items as OpenApiSchema);
    const type = schema['x-kubernetes-list-type'];
    return {
      relation: type === 'set' || type === 'map' ? type : 'atomic',
      keys: [...(schema['x-kubernetes-list-map-keys'] ?? [])].sort(),
      items: item === undefined ? deducedType : this.#type(item),
    };
  }
}
