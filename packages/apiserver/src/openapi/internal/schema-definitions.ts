import type { GroupVersionKind } from '@oarlock/api/kinds';
import { definitionOf, type Schema } from '@oarlock/api/schema/schema';
import { describeField, describeKind, describeMember } from '../openapi-descriptions.ts';

export type Json = Readonly<Record<string, unknown>>;
export type OpenApiVersion = 2 | 3;

const packages: Readonly<Record<string, string>> = {
  meta: 'io.k8s.apimachinery.pkg.apis.meta',
  'apiextensions.k8s.io': 'io.k8s.apiextensions-apiserver.pkg.apis.apiextensions',
  'apiregistration.k8s.io': 'io.k8s.kube-aggregator.pkg.apis.apiregistration',
  'internal.apiserver.k8s.io': 'io.k8s.api.apiserverinternal',
};
const stringOrNumber = [{ type: 'string' }, { type: 'number' }];
const integerOrString = [{ type: 'integer' }, { type: 'string' }];

/** The OpenAPI definitions of scalar types that have a definition of their own. */
const scalarDefinitions: Readonly<Record<string, { readonly name: string; readonly body: (version: OpenApiVersion) => Json }>> = {
  'date-time': { name: 'io.k8s.apimachinery.pkg.apis.meta.v1.Time', body: () => ({ type: 'string', format: 'date-time' }) },
  'micro-time': { name: 'io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime', body: () => ({ type: 'string', format: 'date-time' }) },
  quantity: {
    name: 'io.k8s.apimachinery.pkg.api.resource.Quantity',
    body: (version) => (version === 2 ? { type: 'string' } : { oneOf: stringOrNumber }),
  },
  'int-or-string': {
    name: 'io.k8s.apimachinery.pkg.util.intstr.IntOrString',
    body: (version) => (version === 2 ? { type: 'string', format: 'int-or-string' } : { format: 'int-or-string', oneOf: integerOrString }),
  },
};

/** Returns the OpenAPI name of a definition ID: `io.k8s.api.core.v1.Pod` for `core/v1.Pod`. */
export function definitionName(id: string): string {
  const slash = id.indexOf('/');
  const scope = id.slice(0, slash);
  return `${packages[scope] ?? `io.k8s.api.${scope.split('.')[0]}`}.${id.slice(slash + 1)}`;
}

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
    return this.refToGeneratedList(definitionName(id), this.refTo(id), { ...kind, kind: `${kind.kind}List` });
  }

  /**
   * Returns a `$ref` to a definition that is in no schema table. `make` builds the definition on first reference, given the reference to ObjectMeta.
   */
  refToGenerated(name: string, kind: GroupVersionKind, make: (metadata: Json) => Json): Json {
    if (!this.#bodies.has(name)) {
      this.#bodies.set(name, make(this.#refWith(this.refTo('meta/v1.ObjectMeta'))));
      this.#mark(name, [kind]);
    }
    return this.#ref(name);
  }

  /** Returns a `$ref` to the list definition whose items have the type that `item` refers to. */
  refToGeneratedList(itemName: string, item: Json, listKind: GroupVersionKind): Json {
    const name = `${itemName}List`;
    if (!this.#bodies.has(name)) {
      this.#bodies.set(name, {
        type: 'object',
        required: ['items'],
        properties: {
          apiVersion: { type: 'string' },
          items: { type: 'array', items: this.#refWith(item) },
          kind: { type: 'string' },
          metadata: this.#refWith(this.refTo('meta/v1.ListMeta')),
        },
      });
      this.#mark(name, [listKind]);
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
    this.#bodies.set(name, {});
    this.#pending.push({ name, schema });
  }

  #ref(name: string): Json {
    return { $ref: `#/${this.#version === 2 ? 'definitions' : 'components/schemas'}/${name}` };
  }

  /** Returns a reference with additional attributes. OpenAPI 3.0 allows no siblings of `$ref`, so the reference is wrapped in `allOf`. */
  #refWith(ref: Json, attributes: Json = {}): Json {
    return this.#version === 2 ? { ...ref, ...attributes } : { allOf: [ref], default: {}, ...attributes };
  }

  #struct(schema: Schema): Json {
    const properties: Record<string, Json> = {};
    const isKind = ['apiVersion', 'kind', 'metadata'].every((name) => schema.properties?.has(name) === true);
    for (const [name, property] of schema.properties ?? []) {
      const value = this.#value(property, schema);
      const described = isKind ? describeMember(name) : undefined;
      const description = described ?? (schema.name === undefined ? undefined : describeField(schema.name, name));
      properties[name] = description === undefined ? value : { description, ...value };
    }
    const { required } = schema;
    const description = schema.name === undefined ? undefined : describeKind(schema.name);
    return {
      ...(description !== undefined && { description }),
      type: 'object',
      ...(Object.keys(properties).length > 0 && { properties }),
      ...(required !== undefined && required.length > 0 && { required: [...required] }),
      ...(schema.mapType && { 'x-kubernetes-map-type': schema.mapType }),
    };
  }

  #value(schema: Schema, within: Schema): Json {
    const attributes = attributesOf(schema);
    if (schema.name !== undefined) {
      this.#enqueue(definitionName(schema.name), definitionOf(schema.name) ?? schema);
      return this.#refWith(this.#ref(definitionName(schema.name)), attributes);
    }
    const scalar = scalarDefinitions[schema.format ?? ''];
    if (scalar !== undefined) {
      if (!this.#bodies.has(scalar.name)) this.#bodies.set(scalar.name, scalar.body(this.#version));
      return this.#version === 2 ? { ...this.#ref(scalar.name), ...attributes } : { allOf: [this.#ref(scalar.name)], ...attributes };
    }
    switch (schema.type) {
      case 'any':
        return within.name?.startsWith('apiextensions.k8s.io/') === true ? {} : { type: 'object' };
      case 'array':
        return { type: 'array', items: schema.items === undefined ? { type: 'object' } : this.#value(schema.items, within), ...attributes };
      case 'object':
        return {
          type: 'object',
          additionalProperties:
            schema.additionalProperties === undefined ? { type: 'object' } : this.#value(schema.additionalProperties, within),
          ...attributes,
        };
      default:
        return { type: schema.type, ...(schema.format !== undefined && { format: schema.format }), ...attributes };
    }
  }
}

function attributesOf({ listType, listMapKeys, mapType, patchStrategy, patchMergeKey, name }: Schema): Json {
  return {
    ...(listMapKeys && { 'x-kubernetes-list-map-keys': listMapKeys }),
    ...(listType && { 'x-kubernetes-list-type': listType }),
    ...(mapType && name === undefined && { 'x-kubernetes-map-type': mapType }),
    ...(patchMergeKey && { 'x-kubernetes-patch-merge-key': patchMergeKey }),
    ...(patchStrategy && { 'x-kubernetes-patch-strategy': patchStrategy.join(',') }),
  };
}

/** Returns the definition ID of a kind. Kinds of apimachinery have their definition in `meta/v1` for every group. */
export function definitionId({ group, version, kind }: GroupVersionKind): string {
  const id = `${group === '' ? 'core' : group}/${version}.${kind}`;
  return definitionOf(id) === undefined && definitionOf(`meta/v1.${kind}`) !== undefined ? `meta/v1.${kind}` : id;
}
