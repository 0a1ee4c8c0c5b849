import type { JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { compilePattern, type Pattern } from './pattern.ts';

/**
 * A node of a CustomResourceDefinition's structural schema (KEP-1693). Child nodes are built on first access, so that a definition that is
 * not used costs only its JSON.
 */
export class SchemaNode {
  readonly source: JSONSchemaProps;
  /** True for an embedded resource (x-kubernetes-embedded-resource), in which `apiVersion`, `kind` and `metadata` are declared implicitly. */
  readonly root: boolean;
  readonly type: string;
  readonly preserveUnknown: boolean;
  readonly embedded: boolean;
  readonly intOrString: boolean;
  readonly nullable: boolean;
  #properties: Map<string, SchemaNode> | undefined;
  #items: SchemaNode | null | undefined;
  #additional: SchemaNode | true | null | undefined;
  #defaults: readonly (readonly [name: string, node: SchemaNode])[] | undefined;
  #pattern: Pattern | null | undefined;
  #parts: Partial<Record<'allOf' | 'anyOf' | 'oneOf', readonly SchemaNode[]>> | undefined;
  #not: SchemaNode | undefined;

  constructor(source: JSONSchemaProps, root = false) {
    this.source = source;
    this.root = root;
    this.type = source.type ?? '';
    this.preserveUnknown = source['x-kubernetes-preserve-unknown-fields'] === true;
    this.embedded = source['x-kubernetes-embedded-resource'] === true;
    this.intOrString = source['x-kubernetes-int-or-string'] === true;
    this.nullable = source.nullable === true;
  }

  property(name: string): SchemaNode | undefined {
    const known = this.#properties?.get(name);
    if (known !== undefined) return known;
    const { properties } = this.source;
    if (properties === undefined || !Object.hasOwn(properties, name)) return undefined;
    const node = new SchemaNode(properties[name] as JSONSchemaProps);
    (this.#properties ??= new Map()).set(name, node);
    return node;
  }

  get propertyNames(): readonly string[] {
    return Object.keys(this.source.properties ?? {});
  }

  get items(): SchemaNode | undefined {
    if (this.#items === undefined) {
      const { items } = this.source;
      this.#items = items === undefined || Array.isArray(items) ? null : new SchemaNode(items as JSONSchemaProps);
    }
    return this.#items ?? undefined;
  }

  /** The schema of additionalProperties; `true` for a boolean, undefined if there is none. Pruning keeps the keys that it declares. */
  get additional(): SchemaNode | true | undefined {
    if (this.#additional === undefined) {
      const { additionalProperties } = this.source;
      this.#additional =
        additionalProperties === undefined ? null : typeof additionalProperties === 'boolean' ? true : new SchemaNode(additionalProperties);
    }
    return this.#additional ?? undefined;
  }

  get additionalSchema(): SchemaNode | undefined {
    const { additional } = this;
    return additional === true ? undefined : additional;
  }

  get hasDefault(): boolean {
    return this.source.default !== undefined && this.source.default !== null;
  }

  /** The names and nodes of properties that have a default. */
  get defaults(): readonly (readonly [name: string, node: SchemaNode])[] {
    if (this.#defaults === undefined) {
      const found: [string, SchemaNode][] = [];
      for (const name of this.propertyNames) {
        const defaultValue = this.source.properties?.[name]?.default;
        if (defaultValue !== undefined && defaultValue !== null) found.push([name, this.property(name) as SchemaNode]);
      }
      this.#defaults = found;
    }
    return this.#defaults;
  }

  /** The compiled pattern; undefined if there is none or it does not compile. */
  get pattern(): Pattern | undefined {
    if (this.#pattern === undefined) {
      const { pattern } = this.source;
      const compiled = pattern === undefined || pattern === '' ? undefined : compilePattern(pattern);
      this.#pattern = compiled === undefined || compiled instanceof Error ? null : compiled;
    }
    return this.#pattern ?? undefined;
  }

  parts(which: 'allOf' | 'anyOf' | 'oneOf'): readonly SchemaNode[] {
    const sources = this.source[which];
    if (sources === undefined || sources.length === 0) return none;
    this.#parts ??= {};
    return (this.#parts[which] ??= sources.map((source) => new SchemaNode(source)));
  }

  get not(): SchemaNode | undefined {
    if (this.source.not === undefined) return undefined;
    return (this.#not ??= new SchemaNode(this.source.not));
  }
}

const none: readonly SchemaNode[] = [];
