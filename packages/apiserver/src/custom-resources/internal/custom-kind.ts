import type { FieldError } from '@oarlock/api/field/field-error';
import { jsonEqual } from '@oarlock/api/json/json';
import { BuiltinTypes } from '@oarlock/api/managed-fields/builtin-type';
import type { FieldType } from '@oarlock/api/managed-fields/field-type';
import { openApiType, type OpenApiSchema } from '@oarlock/api/managed-fields/openapi-type';
import { isDns1123Subdomain } from '@oarlock/api/values/names';
import type { KubeObject } from '@oarlock/api/object';
import type { GroupVersionKind } from '@oarlock/api/kinds';
import { unknownFields } from '@oarlock/api/serializer/strict-decoding';
import type {
  CustomResourceDefinition,
  CustomResourceDefinitionVersion,
  CustomResourceSubresourceScale,
} from '@oarlock/api/types/apiextensions-v1';
import { finalizerWarnings, validateObjectMeta, validateObjectMetaUpdate } from '@oarlock/api/validation/meta';
import type { CustomResourceRules, CustomResourceWrite, ServedKind, StoredKind } from '../../registry/served-kind.ts';
import { withMetadata, withFields, fieldOf, type Strategy, type StrategyContext } from '../../registry/strategy.ts';
import { DerivedObject, type Item } from '../../watch-cache/item.ts';
import type { EncodedObject } from '../../endpoints/request/response.ts';
import type { FieldReaders } from '../../watch-cache/selection.ts';
import { pruneAndDefault } from '../schema/pruning-and-defaulting.ts';
import type { Converter } from '../conversion/converter.ts';
import { sortedErrors } from '../custom-object-decoding.ts';
import { validateEmbedded } from '../schema/embedded-resources.ts';
import { fieldReader } from './field-paths.ts';
import { validateListTypes } from '../schema/list-types.ts';
import { isTerminating } from '../definition/naming.ts';
import type { PublishedKind } from '../published-kind.ts';
import { validateReplicas } from './replicas.ts';
import type { RuleMetrics } from '../cel/rule-metrics.ts';
import { validateRules, skippedRulesError } from '../cel/validator.ts';
import type { SchemaNode } from '../schema/schema-node.ts';
import { floatLiteralsOf } from '../float-literals.ts';
import { withTypedMetadata } from './typed-metadata.ts';
import { rootPath, validateValue } from '../schema/value-validation.ts';
import { compareKubeAwareVersions } from '@oarlock/api/kube-aware-versions';

const metaFields: FieldReaders = { 'metadata.name': ({ metadata }) => metadata?.name ?? '' };
const namespacedFields: FieldReaders = { ...metaFields, 'metadata.namespace': ({ metadata }) => metadata?.namespace ?? '' };
/** The types of schema errors after which rules are not evaluated: the rules would repeat the error or cannot be evaluated. */
const blockingErrorTypes: ReadonlySet<FieldError['type']> = new Set([
  'FieldValueNotSupported',
  'FieldValueRequired',
  'FieldValueTooLong',
  'FieldValueTooMany',
  'FieldValueTypeInvalid',
]);

let types: BuiltinTypes | undefined;
const metaType = (): FieldType => (types ??= new BuiltinTypes()).objectMeta();

export interface CustomKindInput {
  readonly definition: CustomResourceDefinition;
  readonly version: CustomResourceDefinitionVersion;
  readonly kind: PublishedKind;
  readonly schema: SchemaNode;
  readonly store: StoredKind;
  readonly converter: Converter;
  readonly metrics?: RuleMetrics | undefined;
}

/** Returns the served kind of one version of a definition. */
export function newCustomKind(input: CustomKindInput): ServedKind {
  const { definition, version, kind, schema, store, converter } = input;
  const { group, namespaced } = kind;
  const apiVersion = `${group}/${version.name}`;
  const gvk = { group, version: version.name, kind: kind.kind };
  const views = new ServedViews({ schema, converter, apiVersion });
  let fieldType: FieldType | undefined;
  return {
    kind,
    resource: kind.publishedSchema.resource,
    gvk,
    apiVersion,
    namespaced,
    warning: versionDeprecation(definition, version),
    schema: undefined,
    get fieldType(): FieldType {
      return (fieldType ??= openApiType(version.schema?.openAPIV3Schema as OpenApiSchema | undefined, metaType()));
    },
    strategy: version.subresources?.status === undefined ? withoutStatus : withStatus,
    allowLoopback: false,
    fields: fieldsOf(version, namespaced),
    storedKind: store,
    cache: store.cache,
    conversion: undefined,
    toServedItem: (item) => views.get(item),
    customResource: newCustomResourceRules(input, gvk, views),
  };
}

function newCustomResourceRules(
  { definition, version, kind, schema, store, converter, metrics }: CustomKindInput,
  gvk: GroupVersionKind,
  views: ServedViews,
): CustomResourceRules {
  const { group, namespaced } = kind;
  const apiVersion = `${group}/${version.name}`;
  const scale = version.subresources?.scale;
  const rules: ValidationRules = { schema, namespaced, scale, metrics };
  return {
    isTerminating: isTerminating(definition),
    convertsByWebhook: converter.usesWebhook,
    withDefaults: (object) => pruneAndDefault(schema, withTypedMetadata(object, gvk)),
    validate: (write) => validate(rules, write),
    unknownFields: (object) => sortedErrors(unknownFields(kind.publishedSchema.fields, object)),
    toStored: (object) =>
      converter.convert({ objects: [object], desiredAPIVersion: store.codec.apiVersion }, (list) => list[0] as KubeObject),
    convert: (object) =>
      converter.convert({ objects: [object], desiredAPIVersion: apiVersion }, (list) => pruneAndDefault(schema, list[0] as KubeObject)),
    prepareConversion: (items, signal) => views.prepare(items, signal),
    scale,
  };
}

interface ServedViewsOptions {
  readonly schema: SchemaNode;
  readonly converter: Converter;
  /** The apiVersion of the served version. */
  readonly apiVersion: string;
}

/** The stored items in the served version, pruned and defaulted. Each version of an object is converted once. */
class ServedViews {
  readonly #schema: SchemaNode;
  readonly #converter: Converter;
  readonly #apiVersion: string;
  readonly #views = new WeakMap<Item, EncodedObject>();

  constructor({ schema, converter, apiVersion }: ServedViewsOptions) {
    this.#schema = schema;
    this.#converter = converter;
    this.#apiVersion = apiVersion;
  }

  /** Returns an item in the served version. If a webhook converts the item, `prepare` must have completed for it. */
  get(item: Item): EncodedObject {
    let view = this.#views.get(item);
    if (view === undefined) {
      const { object } = item;
      view = this.#complete(item, object.apiVersion === this.#apiVersion ? object : this.#converter.sync(object, this.#apiVersion));
      this.#views.set(item, view);
    }
    return view;
  }

  /** Converts the items with one webhook call; returns undefined if no item needs a conversion. */
  prepare(items: readonly Item[], signal: AbortSignal | undefined): Promise<void> | undefined {
    if (!this.#converter.usesWebhook) return undefined;
    const missing = items.filter((item) => item.object.apiVersion !== this.#apiVersion && !this.#views.has(item));
    if (missing.length === 0) return undefined;
    const request = { objects: missing.map(({ object }) => object), desiredAPIVersion: this.#apiVersion, signal };
    return Promise.resolve(
      this.#converter.convert(request, (objects) => {
        for (const [i, item] of missing.entries()) this.#views.set(item, this.#complete(item, objects[i] as KubeObject));
      }),
    );
  }

  #complete(item: Item, object: KubeObject): EncodedObject {
    const defaulted = pruneAndDefault(this.#schema, object);
    return defaulted === item.object ? item : new DerivedObject(defaulted, item.revision);
  }
}

/** Accepts any finalizer; a name without a domain only causes a warning. */
const acceptAnyFinalizer = (): void => {};

interface ValidationRules {
  readonly schema: SchemaNode;
  readonly namespaced: boolean;
  readonly scale: CustomResourceSubresourceScale | undefined;
  readonly metrics: RuleMetrics | undefined;
}

function validate(
  { schema, namespaced, scale, metrics }: ValidationRules,
  { object, old, subresource, sent }: CustomResourceWrite,
): readonly FieldError[] {
  const floats = floatLiteralsOf(sent);
  const errors: FieldError[] = [];
  if (old === undefined) validateObjectMeta(errors, object.metadata ?? {}, namespaced, isDns1123Subdomain, 'metadata', acceptAnyFinalizer);
  else validateObjectMetaUpdate(errors, object.metadata ?? {}, old.metadata ?? {}, 'metadata', acceptAnyFinalizer);
  errors.push(
    ...(subresource === 'status' ? validateStatus(schema, object, old) : validateValue(schema, object, old && { value: old })),
    ...validateReplicas(object, { paths: scale, subresource, floats }),
  );
  const unchanged = old !== undefined && jsonEqual(withoutTypeAndMetadata(object), withoutTypeAndMetadata(old));
  if (!unchanged) {
    if (subresource !== 'status') errors.push(...validateEmbedded(schema, object));
    const duplicates = validateListTypes(schema, object);
    // duplicates that the old object has are tolerated
    if (duplicates.length > 0 && (old === undefined || validateListTypes(schema, old).length === 0)) errors.push(...duplicates);
  }
  if (errors.some(({ type }) => blockingErrorTypes.has(type))) return skippedRulesError(schema, errors);
  errors.push(...validateRules(schema, { object, old }, metrics));
  return errors;
}

/** Validates a status update against the schema of the status alone. */
function validateStatus(schema: SchemaNode, object: KubeObject, old: KubeObject | undefined): readonly FieldError[] {
  const status = schema.property('status');
  const value = fieldOf(object, 'status');
  if (status === undefined || value === undefined) return [];
  const before = old && fieldOf(old, 'status');
  return validateValue(status, value, before === undefined ? undefined : { value: before }).map((error) => ({
    ...error,
    field: error.field === '' || error.field === rootPath ? 'status' : `status.${error.field}`,
  }));
}

const withoutTypeAndMetadata = (object: KubeObject) => withFields(object, { metadata: undefined });

/** Returns true if a field other than metadata and status has changed. */
const hasSpecChanged = (object: KubeObject, old: KubeObject): boolean =>
  !jsonEqual(
    withFields(withoutTypeAndMetadata(object), { status: undefined }),
    withFields(withoutTypeAndMetadata(old), { status: undefined }),
  );

function warnUnqualifiedFinalizers(object: KubeObject, old: KubeObject | undefined, { warn }: StrategyContext): readonly FieldError[] {
  const added = (object.metadata?.finalizers ?? []).filter((name) => old?.metadata?.finalizers?.includes(name) !== true);
  for (const warning of finalizerWarnings(added.sort())) warn(warning);
  return [];
}
const finalizers: Pick<Strategy, 'validate' | 'validateUpdate'> = {
  validate: (object, context) => warnUnqualifiedFinalizers(object, undefined, context),
  validateUpdate: warnUnqualifiedFinalizers,
};

const withStatus: Strategy = {
  ...finalizers,
  keepsStatusOnCreate: true,
  allowUnconditionalUpdate: false,
  prepareForCreate: (object) => withFields(object, { status: undefined }),
  generation: hasSpecChanged,
  subresources: {
    status: {
      // a status update changes only the status
      prepareForUpdate(object, old) {
        const { resourceVersion, managedFields } = object.metadata ?? {};
        return withMetadata(withFields(old, { status: fieldOf(object, 'status'), apiVersion: object.apiVersion }), {
          resourceVersion,
          managedFields,
        });
      },
    },
  },
};
const withoutStatus: Strategy = {
  ...finalizers,
  keepsStatusOnCreate: true,
  allowUnconditionalUpdate: false,
  generation: (object, old) => !jsonEqual(withoutTypeAndMetadata(object), withoutTypeAndMetadata(old)),
};

function fieldsOf({ selectableFields = [] }: CustomResourceDefinitionVersion, namespaced: boolean): FieldReaders {
  const own = namespaced ? namespacedFields : metaFields;
  if (selectableFields.length === 0) return own;
  const readers: Record<string, (object: KubeObject) => string> = { ...own };
  for (const { jsonPath } of selectableFields) readers[jsonPath.slice(1)] = fieldReader(jsonPath);
  return readers;
}

function versionDeprecation({ spec }: CustomResourceDefinition, version: CustomResourceDefinitionVersion): string | undefined {
  if (version.deprecated !== true) return undefined;
  if (version.deprecationWarning !== undefined) return version.deprecationWarning;
  const newer = spec.versions
    .filter(({ name, served, deprecated }) => served && deprecated !== true && compareKubeAwareVersions(name, version.name) < 0)
    .sort((a, b) => compareKubeAwareVersions(a.name, b.name))[0];
  const { kind } = spec.names;
  return `${spec.group}/${version.name} ${kind} is deprecated${newer === undefined ? '' : `; use ${spec.group}/${newer.name} ${kind}`}`;
}
