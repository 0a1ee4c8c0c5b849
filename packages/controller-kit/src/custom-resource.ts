import { deepFreeze, type KubeObject, type ObjectMeta } from '@oarlock/api/object';
import { apiVersionOf, groupResource, resource, type Resource } from '@oarlock/api/resource';
import type {
  CustomResourceColumnDefinition,
  CustomResourceConversion,
  CustomResourceDefinition,
  CustomResourceDefinitionVersion,
  CustomResourceSubresourceScale,
  JSONSchemaProps,
  ValidationRule,
} from '@oarlock/api/types/apiextensions-v1';
import type { z } from 'zod';
import { structuralSchema } from './structural-schema.ts';

/** An object of a custom resource. `status` is absent until a controller sets it. */
export interface CustomObject<Spec = unknown, Status = unknown> extends KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta & { readonly name: string };
  readonly spec: Spec;
  readonly status?: Status;
}

/** One version of a custom resource. */
export interface VersionOptions<Spec extends z.ZodType = z.ZodType, Status extends z.ZodType = z.ZodType> {
  /** The name of the version, such as `v1alpha1`. */
  readonly name: string;
  readonly spec: Spec;
  /** The schema of the status. Enables the subresource `status`, to which only the controller writes. */
  readonly status?: Status;
  /** CEL rules for the whole object. `rule()` adds rules to parts of the spec. */
  readonly rules?: readonly ValidationRule[];
  /** The columns of `kubectl get`, after the name. By default only the age. */
  readonly printerColumns?: readonly CustomResourceColumnDefinition[];
  /** Enables the subresource `scale`, and with it `kubectl scale` and autoscalers. */
  readonly scale?: CustomResourceSubresourceScale;
  /** JSON paths of the fields that field selectors can use. */
  readonly selectableFields?: readonly string[];
  /** Whether the API server serves the version. Default true. */
  readonly served?: boolean;
  /** A warning that clients of the version receive, or true for the default one. */
  readonly deprecated?: boolean | string;
}

export interface CustomResourceOptions<Spec extends z.ZodType, Status extends z.ZodType> {
  readonly group: string;
  /** The kind in CamelCase and singular. */
  readonly kind: string;
  /** The name in URLs. By default the kind in lower case and plural. */
  readonly plural?: string;
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
  /** Default `Namespaced`. */
  readonly scope?: 'Namespaced' | 'Cluster';
  /** The version in which objects are stored, and that the controller uses. */
  readonly version: VersionOptions<Spec, Status>;
}

type ObjectOf<Spec extends z.ZodType, Status extends z.ZodType> = CustomObject<z.output<Spec>, z.output<Status>>;

/**
 * Converts objects between a version and the stored one. Like the conversion functions of upstream, they must not lose information, and must keep the
 * metadata except labels and annotations.
 */
export interface Conversion<T extends CustomObject, V extends CustomObject> {
  toStored(object: V): Omit<T, 'apiVersion' | 'kind'>;
  fromStored(object: T): Omit<V, 'apiVersion' | 'kind'>;
}

interface OtherVersion {
  readonly options: VersionOptions;
  readonly conversion: Conversion<CustomObject, CustomObject> | undefined;
}

/** The object type of a `CustomResourceKind`: `type Website = ObjectOfKind<typeof Website>`. */
export type ObjectOfKind<K> = K extends CustomResourceKind<infer T, z.ZodType> ? T : never;

/**
 * A custom resource: its typed handle for clients and informers, and its CustomResourceDefinition.
 *
 * ```ts
 * export const Website = customResource({
 *   group: 'example.com',
 *   kind: 'Website',
 *   version: { name: 'v1', spec: z.object({ replicas: z.int32().min(0).default(1) }), status: z.object({ conditions: conditions().optional() }) },
 * });
 * export type Website = ObjectOfKind<typeof Website>;
 * await client.create(Website.resource, Website.object({ namespace: 'default', name: 'shop' }, {}));
 * ```
 */
export class CustomResourceKind<T extends CustomObject = CustomObject, Spec extends z.ZodType = z.ZodType> {
  /** The handle of the stored version. */
  readonly resource: Resource<T>;
  readonly #options: CustomResourceOptions<z.ZodType, z.ZodType>;
  readonly #others: readonly OtherVersion[];
  #definition: CustomResourceDefinition | undefined;

  constructor(options: CustomResourceOptions<z.ZodType, z.ZodType>, others: readonly OtherVersion[] = []) {
    this.#options = options;
    this.#others = others;
    this.resource = this.resourceOf(options.version.name) as Resource<T>;
  }

  /** The manifest. @throws SchemaError if a schema cannot be expressed in it */
  get definition(): CustomResourceDefinition {
    this.#definition ??= this.#newDefinition({ strategy: 'None' });
    return this.#definition;
  }

  /** True if objects are converted by functions, so that the definition needs a conversion webhook. */
  get hasConversion(): boolean {
    return this.#others.some(({ conversion }) => conversion !== undefined);
  }

  /** Returns the manifest with the webhook that converts objects. */
  definitionWith(conversion: CustomResourceConversion): CustomResourceDefinition {
    return this.#newDefinition(conversion);
  }

  /**
   * Returns the kind with one more version. Without a conversion, only the `apiVersion` of objects changes between the versions, as with the strategy
   * `None`.
   */
  alsoServes<OtherSpec extends z.ZodType, OtherStatus extends z.ZodType>(
    version: VersionOptions<OtherSpec, OtherStatus>,
    conversion?: Conversion<T, ObjectOf<OtherSpec, OtherStatus>>,
  ): CustomResourceKind<T, Spec> {
    if (this.#versions().some(({ name }) => name === version.name))
      throw new Error(`${this.#name} already has the version ${version.name}`);
    const other = { options: version, conversion: conversion as unknown as OtherVersion['conversion'] };
    return new CustomResourceKind(this.#options, [...this.#others, other]);
  }

  /** Returns the handle of one version. */
  resourceOf(version: string): Resource<CustomObject> {
    const { group, kind, scope } = this.#options;
    if (!this.#versions().some(({ name }) => name === version)) throw new Error(`${this.#name} has no version ${version}`);
    return resource(group, version, this.#plural, kind, scope !== 'Cluster');
  }

  /** Returns an object with the defaults of the schema. @throws ZodError if the spec is invalid */
  object(metadata: ObjectMeta, spec: z.input<Spec>): T {
    const { resource: own } = this;
    return { apiVersion: apiVersionOf(own), kind: own.kind, metadata, spec: this.#options.version.spec.parse(spec) } as unknown as T;
  }

  /** Returns the object in another version. @throws Error if the kind has no such version */
  convert(object: KubeObject, apiVersion: string): KubeObject {
    if (object.apiVersion === apiVersion) return object;
    const stored = apiVersionOf(this.resource);
    const from = this.#conversionOf(object.apiVersion ?? '');
    const to = this.#conversionOf(apiVersion);
    const { kind } = this.resource;
    const hub = from === undefined ? object : { ...from.toStored(object as CustomObject), apiVersion: stored, kind };
    return to === undefined ? { ...hub, apiVersion } : { ...to.fromStored(hub as CustomObject), apiVersion, kind };
  }

  /** Returns the conversion of a version; undefined for the stored version and for versions without functions. */
  #conversionOf(apiVersion: string): OtherVersion['conversion'] {
    const { group } = this.#options;
    const version = apiVersion.startsWith(`${group}/`) ? apiVersion.slice(group.length + 1) : '';
    if (!this.#versions().some(({ name }) => name === version))
      throw new Error(`${this.#name} has no version ${JSON.stringify(apiVersion)}`);
    return this.#others.find(({ options }) => options.name === version)?.conversion;
  }

  get #plural(): string {
    return this.#options.plural ?? pluralOf(this.#options.kind.toLowerCase());
  }
  get #name(): string {
    return groupResource({ group: this.#options.group, resource: this.#plural });
  }
  #versions(): readonly VersionOptions[] {
    return [this.#options.version, ...this.#others.map(({ options }) => options)];
  }

  #newDefinition(conversion: CustomResourceConversion): CustomResourceDefinition {
    const { group, kind, shortNames = [], categories = [], scope = 'Namespaced' } = this.#options;
    return deepFreeze({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: this.#name },
      spec: {
        group,
        names: {
          plural: this.#plural,
          singular: kind.toLowerCase(),
          kind,
          listKind: `${kind}List`,
          ...(shortNames.length > 0 && { shortNames }),
          ...(categories.length > 0 && { categories }),
        },
        scope,
        versions: this.#versions().map((version) => versionOf(version, version === this.#options.version)),
        ...(conversion.strategy !== 'None' && { conversion }),
      },
    } satisfies CustomResourceDefinition);
  }
}

/** Declares a custom resource from zod schemas of its spec and status. */
export function customResource<Spec extends z.ZodType, Status extends z.ZodType = z.ZodType<unknown>>(
  options: CustomResourceOptions<Spec, Status>,
): CustomResourceKind<ObjectOf<Spec, Status>, Spec> {
  const kind = new CustomResourceKind<ObjectOf<Spec, Status>, Spec>(options as CustomResourceOptions<z.ZodType, z.ZodType>);
  void kind.definition; // a schema that cannot be expressed fails where it is declared
  return kind;
}

function versionOf(version: VersionOptions, isStored: boolean): CustomResourceDefinitionVersion {
  const { name, served = true, deprecated = false, printerColumns, selectableFields, scale, status } = version;
  return {
    name,
    served,
    storage: isStored,
    ...(deprecated !== false && { deprecated: true }),
    ...(typeof deprecated === 'string' && { deprecationWarning: deprecated }),
    schema: { openAPIV3Schema: schemaOf(version) },
    ...((status !== undefined || scale !== undefined) && {
      subresources: { ...(status !== undefined && { status: {} }), ...(scale !== undefined && { scale }) },
    }),
    ...(printerColumns !== undefined && { additionalPrinterColumns: printerColumns }),
    ...(selectableFields !== undefined && { selectableFields: selectableFields.map((jsonPath) => ({ jsonPath })) }),
  };
}

function schemaOf({ spec, status, rules = [] }: VersionOptions): JSONSchemaProps {
  return {
    type: 'object',
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: { type: 'object' },
      spec: structuralSchema(spec, 'spec'),
      ...(status !== undefined && { status: structuralSchema(status, 'status') }),
    },
    ...(rules.length > 0 && { 'x-kubernetes-validations': rules }),
  };
}

/** Returns the plural of an English noun in lower case. */
function pluralOf(noun: string): string {
  if (/(?:s|x|z|ch|sh)$/.test(noun)) return `${noun}es`;
  return /[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : `${noun}s`;
}
