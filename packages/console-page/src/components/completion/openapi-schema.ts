/** The parts of a schema of OpenAPI v3 that completion reads. */
export interface Schema {
  readonly $ref?: string;
  readonly allOf?: readonly Schema[];
  readonly type?: string;
  readonly format?: string;
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly 'x-kubernetes-int-or-string'?: boolean;
  readonly 'x-kubernetes-group-version-kind'?: readonly { readonly group: string; readonly version: string; readonly kind: string }[];
}

/** A document of `/openapi/v3/...`. */
export interface OpenApiDocument {
  readonly components?: { readonly schemas?: Readonly<Record<string, Schema>> };
}

const refPrefix = '#/components/schemas/';

/** The schemas of one group and version. */
export class Schemas {
  readonly #schemas: Readonly<Record<string, Schema>>;

  constructor({ components }: OpenApiDocument) {
    this.#schemas = components?.schemas ?? {};
  }

  /** Returns the schema of a kind. */
  ofKind(apiVersion: string, kind: string): Schema | undefined {
    const [version = '', group = ''] = apiVersion.split('/').reverse();
    return Object.values(this.#schemas).find((schema) =>
      schema['x-kubernetes-group-version-kind']?.some((each) => each.group === group && each.version === version && each.kind === kind),
    );
  }

  /** Returns the schema below another, by keys and `[]` for items; undefined where the schema does not describe them. */
  at(root: Schema, path: readonly string[]): Schema | undefined {
    let schema: Schema | undefined = this.resolve(root);
    for (const key of path) {
      const { items, properties, additionalProperties }: Schema = schema;
      const map = typeof additionalProperties === 'object' ? additionalProperties : undefined;
      const next: Schema | undefined =
        key === '[]' ? items : properties !== undefined && Object.hasOwn(properties, key) ? properties[key] : map;
      if (next === undefined) return undefined;
      schema = this.resolve(next);
    }
    return schema;
  }

  /** Returns a schema with what it refers to. Its own description is kept. */
  resolve(schema: Schema): Schema {
    const base = this.#referred(schema);
    return base === undefined ? schema : { ...this.resolve(base), ...schema };
  }

  /** Returns the type as the reference of the API writes it, such as `[]Container` or `map[string]string`. */
  typeText(schema: Schema): string {
    const name = this.#refName(schema);
    const { type, items, additionalProperties, properties, 'x-kubernetes-int-or-string': isIntOrString }: Schema = this.resolve(schema);
    if (isIntOrString === true) return 'integer or string';
    if (type === 'array') return `[]${items === undefined ? '' : this.typeText(items)}`;
    if (name !== undefined && type !== 'object' && properties === undefined) return name;
    if (typeof additionalProperties === 'object') return `map[string]${this.typeText(additionalProperties)}`;
    return name ?? type ?? '';
  }

  #refName(schema: Schema): string | undefined {
    const { $ref } = schema.allOf?.length === 1 ? (schema.allOf[0] ?? schema) : schema;
    return $ref?.slice($ref.lastIndexOf('.') + 1);
  }

  #referred({ $ref, allOf }: Schema): Schema | undefined {
    if ($ref?.startsWith(refPrefix) === true) return this.#schemas[$ref.slice(refPrefix.length)];
    return allOf?.length === 1 ? allOf[0] : undefined;
  }
}
