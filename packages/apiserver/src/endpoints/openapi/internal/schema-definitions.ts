import { optionGroupVersions, rawReferences, requiredOrders, scalarListTypes, unions } from '@oarlock/api/generated/openapi-table';
import type { GroupVersionKind } from '@oarlock/api/kinds';
import { definitionOf, type Schema } from '@oarlock/api/schema/schema';
import { describeField, describeItems, describeKind, describeMember, standardDescriptions } from '../openapi-descriptions.ts';
import {
  definitionName,
  kindOfDefinition,
  optionKinds,
  rawDefinitions,
  scalarDefinitions,
  type Json,
  type OpenApiVersion,
} from './definition-names.ts';
import { elementDefault, scalarDefault, structDefault } from './defaults.ts';
import { enumOf } from './enums.ts';

/** Collects the definitions of one document: all definitions that are referenced directly or indirectly. */
export class SchemaDefinitions {
  readonly #version: OpenApiVersion;
  readonly #bodies = new Map<string, Json>();
  readonly #pending: { readonly name: string; readonly schema: Schema }[] = [];
  readonly #kinds = new Map<string, GroupVersionKind[]>();

  constructor(version: OpenApiVersion) {
    this.#version = version;
  }

  /** Returns a `$ref` to the definition of a schema, and adds the definition. */
  refTo(id: string): Json {
    const schema = definitionOf(id);
    const name = definitionName(id);
    if (schema === undefined) this.#bodies.set(name, { type: 'object' });
    else this.#enqueue(name, schema);
    return this.#ref(name);
  }

  /** Returns a `$ref` to the definition of an object of the given kinds, and adds the definition. */
  refToKind(id: string, ...kinds: readonly GroupVersionKind[]): Json {
    const ref = this.refTo(id);
    this.#mark(definitionName(id), kinds);
    return ref;
  }

  /** Returns a `$ref` to the list definition of a kind, and adds the definition. */
  refToList(id: string, kind: GroupVersionKind): Json {
    const list = { ...kind, kind: `${kind.kind}List` };
    return this.refToGeneratedList({ itemName: definitionName(id), item: this.#element(this.refTo(id)), list, metadataDefault: {} });
  }

  /**
   * Returns a `$ref` to a definition that is in no schema table. `make` builds the definition on first reference, given the reference to ObjectMeta.
   */
  refToGenerated(name: string, kind: GroupVersionKind, make: (metadata: Json) => Json): Json {
    if (!this.#bodies.has(name)) {
      this.#bodies.set(name, make(this.#refWith(this.refTo('meta/v1.ObjectMeta'), {})));
      this.#mark(name, [kind]);
    }
    return this.#ref(name);
  }

  /** Returns a `$ref` to a definition that is in no schema table and no kind, and adds the definition. */
  refToNamed(name: string, body: () => Json): Json {
    return this.#refToBody(name, body);
  }

  /** Returns a `$ref` to a list definition, and adds the definition. */
  refToGeneratedList({ itemName, item, list, description, itemsDescription, metadataDefault }: ListDefinition): Json {
    const name = `${itemName}List`;
    if (!this.#bodies.has(name)) {
      const kind = list.kind.replace(/List$/, '');
      const defaults = this.#version === 3 && metadataDefault !== undefined ? { default: metadataDefault } : {};
      this.#bodies.set(name, {
        description: description ?? `A list of ${kind} objects.`,
        type: 'object',
        required: ['items'],
        properties: {
          apiVersion: { description: standardDescriptions.apiVersion, type: 'string' },
          items: { description: itemsDescription ?? describeItems(kind), type: 'array', items: item },
          kind: { description: standardDescriptions.kind, type: 'string' },
          metadata: this.#refWith(this.refTo('meta/v1.ListMeta'), { description: standardDescriptions.listMetadata, ...defaults }),
        },
      });
      this.#mark(name, [list]);
    }
    return this.#ref(name);
  }

  /** Yields the name and the body of every collected definition, sorted by name. */
  *bodies(): Generator<readonly [name: string, body: Json]> {
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop())
      this.#bodies.set(next.name, this.#struct(next.schema));
    for (const name of [...this.#bodies.keys()].sort()) {
      const kinds = this.#kinds.get(name);
      yield [name, { ...this.#bodies.get(name), ...(kinds && { 'x-kubernetes-group-version-kind': kinds }) }];
    }
  }

  #mark(name: string, kinds: readonly GroupVersionKind[]): void {
    const known = this.#kinds.get(name) ?? [];
    this.#kinds.set(name, known);
    for (const { group, version, kind } of kinds)
      if (!known.some((candidate) => candidate.group === group && candidate.version === version && candidate.kind === kind))
        known.push({ group, version, kind });
  }

  #enqueue(name: string, schema: Schema): void {
    if (this.#bodies.has(name)) return;
    if (optionKinds.has(schema.name ?? '')) this.#markOptions(name);
    const kind = kindOfDefinition(schema);
    if (kind !== undefined) this.#mark(name, [kind]);
    this.#bodies.set(name, {});
    this.#pending.push({ name, schema });
  }

  #markOptions(name: string): void {
    const kind = name.slice(name.lastIndexOf('.') + 1);
    const kinds = optionGroupVersions.map((groupVersion) => {
      const slash = groupVersion.lastIndexOf('/');
      return { group: groupVersion.slice(0, slash), version: groupVersion.slice(slash + 1), kind };
    });
    this.#mark(name, kinds);
  }

  #ref(name: string): Json {
    return { $ref: `#/${this.#version === 2 ? 'definitions' : 'components/schemas'}/${name}` };
  }

  /** Returns a reference with attributes. OpenAPI 3.0 allows no siblings of `$ref`, so the reference is wrapped in `allOf`. */
  #refWith(ref: Json, attributes: Json): Json {
    return this.#version === 2 ? { ...ref, ...attributes } : { allOf: [ref], ...attributes };
  }

  /** Returns a reference to a struct, as an element of a list or map. */
  #element(ref: Json): Json {
    return this.#version === 2 ? ref : { allOf: [ref], default: {} };
  }

  #struct(schema: Schema): Json {
    const id = schema.name ?? '';
    const properties: Record<string, Json> = {};
    const isKind = ['apiVersion', 'kind', 'metadata'].every((name) => schema.properties?.has(name) === true);
    for (const [name, property] of schema.properties ?? []) {
      const value = this.#property(property, { id, name, isRequired: schema.required?.includes(name) === true });
      const description = (isKind ? describeMember(name) : undefined) ?? describeField(id, name);
      properties[name] = description === undefined ? value : { description, ...value };
    }
    const required = requiredOrders[id]?.split(',') ?? schema.required ?? [];
    const description = describeKind(id);
    const union = unions[id];
    return {
      ...(description !== undefined && { description }),
      type: 'object',
      ...(Object.keys(properties).length > 0 && { properties }),
      ...(required.length > 0 && { required: [...required] }),
      ...(schema.mapType && { 'x-kubernetes-map-type': schema.mapType }),
      ...(union !== undefined && { 'x-kubernetes-unions': JSON.parse(union) as unknown }),
    };
  }

  /** Returns the schema of a property, with its default. */
  #property(schema: Schema, field: Field): Json {
    const { id, name, isRequired } = field;
    const ref = this.#referenceOf(schema, field);
    const attributes = attributesOf(schema);
    if (ref !== undefined) {
      const value = schema.name === undefined ? undefined : structDefault(id, name, isRequired);
      return this.#refWith(ref, { ...this.#default(value), ...attributes });
    }
    const { type, format } = schema;
    const value =
      type === 'array' || type === 'object' || type === 'any' ? undefined : scalarDefault(id, name, { type, format, isRequired });
    const listType = scalarListTypes[`${id}.${name}`];
    return {
      ...this.#default(value),
      ...this.#inline(schema, field),
      ...attributes,
      ...(listType !== undefined && { 'x-kubernetes-list-type': listType }),
    };
  }

  /** Returns the schema of an element of a list or map. Elements have the default of their type. */
  #elementOf(schema: Schema | undefined, field: Field): Json {
    if (schema === undefined) return { type: 'object' };
    const ref = this.#referenceOf(schema, field);
    if (ref !== undefined) return schema.name === undefined ? ref : this.#element(ref);
    const value = elementDefault(schema.type, schema.format);
    return { ...this.#default(value), ...this.#inline(schema, field) };
  }

  /** Returns a `$ref` to the definition of a type, and adds the definition; undefined if the type is written inline. */
  #referenceOf(schema: Schema, { id, name }: Field): Json | undefined {
    if (schema.name !== undefined) {
      this.#enqueue(definitionName(schema.name), definitionOf(schema.name) ?? schema);
      return this.#ref(definitionName(schema.name));
    }
    const scalar = scalarDefinitions[schema.format ?? ''];
    if (scalar !== undefined) return this.#refToBody(scalar.name, () => scalar.body(this.#version));
    const raw = schema.type === 'any' ? rawDefinitions[rawReferences[`${id}.${name}`] ?? ''] : undefined;
    return raw && this.#refToBody(raw.name, () => raw.body);
  }

  #refToBody(name: string, body: () => Json): Json {
    if (!this.#bodies.has(name)) this.#bodies.set(name, body());
    return this.#ref(name);
  }

  #default(value: unknown): Json {
    return this.#version === 2 || value === undefined ? {} : { default: value };
  }

  #inline(schema: Schema, field: Field): Json {
    const { type, format } = schema;
    switch (type) {
      case 'any':
        return { type: 'object' };
      case 'array':
        return { type, items: this.#elementOf(schema.items, field) };
      case 'object':
        return { type, additionalProperties: this.#elementOf(schema.additionalProperties, field) };
      default: {
        const values = enumOf(field.id, field.name);
        return { type, ...(format !== undefined && { format }), ...(values !== undefined && { enum: values }) };
      }
    }
  }
}

/** A property of a definition. */
interface Field {
  readonly id: string;
  readonly name: string;
  readonly isRequired: boolean;
}
interface ListDefinition {
  readonly itemName: string;
  /** The schema of an item. */
  readonly item: Json;
  readonly list: GroupVersionKind;
  readonly description?: string;
  readonly itemsDescription?: string;
  /** The default of the list's metadata in OpenAPI v3; absent if it has none. */
  readonly metadataDefault?: Json;
}

function attributesOf({ listType, listMapKeys, mapType, patchStrategy, patchMergeKey, name }: Schema): Json {
  return {
    ...(listMapKeys && { 'x-kubernetes-list-map-keys': listMapKeys }),
    ...(listType && { 'x-kubernetes-list-type': listType }),
    // a reference has the map type of its definition, unless the field declares another
    ...(mapType && (name === undefined || definitionOf(name)?.mapType !== mapType) && { 'x-kubernetes-map-type': mapType }),
    ...(patchMergeKey && { 'x-kubernetes-patch-merge-key': patchMergeKey }),
    ...(patchStrategy && { 'x-kubernetes-patch-strategy': patchStrategy.join(',') }),
  };
}
