import type { FieldError } from '@oarlock/api/field-error';
import { jsonEqual } from '@oarlock/api/json';
import { BuiltinTypes } from '@oarlock/api/managed-fields/builtin-type';
import type { FieldType } from '@oarlock/api/managed-fields/field-type';
import { openApiType, type OpenApiSchema } from '@oarlock/api/managed-fields/openapi-type';
import { isDns1123Subdomain } from '@oarlock/api/names';
import type { KubeObject } from '@oarlock/api/object';
import { unknownFields } from '@oarlock/api/strict-fields';
import type {
  CustomResourceDefinition,
  CustomResourceDefinitionVersion,
  CustomResourceSubresourceScale,
} from '@oarlock/api/types/apiextensions-v1';
import { finalizerWarnings, objectMeta, objectMetaUpdate } from '@oarlock/api/validation/meta';
import type { CustomRules, ServedKind, StoredKind } from '../served-kind.ts';
import { withMeta, withParts, part, type Strategy, type StrategyContext } from '../strategy/strategy.ts';
import { View, type Item } from '../watch-cache/item.ts';
import type { Encoded } from '../response.ts';
import type { FieldReaders } from '../watch-cache/selection.ts';
import { complete } from './complete.ts';
import type { Converter } from './conversion.ts';
import { inOrder } from './custom-body.ts';
import { validateEmbedded } from './embedded.ts';
import { fieldReader } from './fields.ts';
import { validateListTypes } from './list-types.ts';
import { isTerminating } from './names.ts';
import type { PublishedKind } from './published-kind.ts';
import { validateReplicas } from './replicas.ts';
import type { RuleMetrics } from './rule-metrics.ts';
import { checkRules, rulesSkipped } from './rules.ts';
import { customScale } from './scale.ts';
import type { SchemaNode } from './schema-node.ts';
import { floatsOf } from './sent-floats.ts';
import { withTypedMetadata } from './typed-metadata.ts';
import { nowhere, validateValue } from './value-validation.ts';
import { compareVersions } from '@oarlock/api/version-order';

const metaFields: FieldReaders = { 'metadata.name': ({ metadata }) => metadata?.name ?? '' };
const namespacedFields: FieldReaders = { ...metaFields, 'metadata.namespace': ({ metadata }) => metadata?.namespace ?? '' };
/** Errors after which rules would only say the same again, or cannot be evaluated at all. */
const blocking: ReadonlySet<FieldError['type']> = new Set([
  'FieldValueNotSupported',
  'FieldValueRequired',
  'FieldValueTooLong',
  'FieldValueTooMany',
  'FieldValueTypeInvalid',
]);

let types: BuiltinTypes | undefined;
const metaType = (): FieldType => (types ??= new BuiltinTypes()).objectMeta();

export interface CustomKindParts {
  readonly definition: CustomResourceDefinition;
  readonly version: CustomResourceDefinitionVersion;
  readonly kind: PublishedKind;
  readonly schema: SchemaNode;
  readonly store: StoredKind;
  readonly converter: Converter;
  readonly metrics?: RuleMetrics | undefined;
}

/** A version of a resource that a definition makes, as requests are served by it. */
export function customKind({ definition, version, kind, schema, store, converter, metrics }: CustomKindParts): ServedKind {
  const { group, namespaced } = kind;
  const apiVersion = `${group}/${version.name}`;
  const gvk = { group, version: version.name, kind: kind.kind };
  const hasStatus = version.subresources?.status !== undefined;
  const views = new WeakMap<Item, Encoded>();
  const scale = version.subresources?.scale;

  const seen = (item: Item, object: KubeObject): Encoded => {
    const next = complete(schema, object);
    return next === item.object ? item : new View(next, item.revision);
  };
  const viewer = (item: Item): Encoded => {
    let view = views.get(item);
    if (view === undefined) {
      const { object } = item;
      views.set(item, (view = seen(item, object.apiVersion === apiVersion ? object : converter.sync(object, apiVersion))));
    }
    return view;
  };
  const custom: CustomRules = {
    terminating: isTerminating(definition),
    awaits: converter.remote,
    complete: (object) => complete(schema, withTypedMetadata(object, gvk)),
    validate: (object, old, subresource, sent) =>
      validate({ schema, namespaced, scale }, object, old, subresource, floatsOf(sent), metrics),
    unknownFields: (object) => inOrder(unknownFields(kind.published.fields, object)),
    toStored: (object) => converter.convert([object], store.codec.apiVersion, (list) => list[0] as KubeObject),
    convert: (object) => converter.convert([object], apiVersion, (list) => complete(schema, list[0] as KubeObject)),
    prepare(items, signal) {
      if (!converter.remote) return undefined;
      const missing = items.filter((item) => item.object.apiVersion !== apiVersion && !views.has(item));
      if (missing.length === 0) return undefined;
      return Promise.resolve(
        converter.convert(
          missing.map(({ object }) => object),
          apiVersion,
          (objects) => {
            for (const [i, item] of missing.entries()) views.set(item, seen(item, objects[i] as KubeObject));
          },
          signal,
        ),
      );
    },
    scale: scale && ((machinery, call) => customScale(machinery, served, scale, call)),
  };
  let fieldType: FieldType | undefined;
  const served: ServedKind = {
    kind,
    resource: kind.published.resource,
    gvk,
    apiVersion,
    namespaced,
    warning: deprecationOf(definition, version),
    schema: undefined,
    get fieldType(): FieldType {
      return (fieldType ??= openApiType(version.schema?.openAPIV3Schema as OpenApiSchema | undefined, metaType()));
    },
    strategy: hasStatus ? withStatus : withoutStatus,
    allowLoopback: false,
    fields: fieldsOf(version, namespaced),
    store,
    cache: store.cache,
    conversion: undefined,
    viewer,
    custom,
  };
  return served;
}

/** Clients are warned of names that are no domain's, and may use them. */
const anyFinalizer = (): void => {};

function validate(
  {
    schema,
    namespaced,
    scale,
  }: { readonly schema: SchemaNode; readonly namespaced: boolean; readonly scale: CustomResourceSubresourceScale | undefined },
  object: KubeObject,
  old: KubeObject | undefined,
  subresource: string,
  floats: ReadonlySet<string>,
  metrics: RuleMetrics | undefined,
): readonly FieldError[] {
  const errors: FieldError[] = [];
  if (old === undefined) objectMeta(errors, object.metadata ?? {}, namespaced, isDns1123Subdomain, 'metadata', anyFinalizer);
  else objectMetaUpdate(errors, object.metadata ?? {}, old.metadata ?? {}, 'metadata', anyFinalizer);
  errors.push(
    ...(subresource === 'status' ? validateStatus(schema, object, old) : validateValue(schema, object, old && { value: old })),
    ...validateReplicas(scale, object, subresource, floats),
  );
  const unchanged = old !== undefined && jsonEqual(body(object), body(old));
  if (!unchanged) {
    if (subresource !== 'status') errors.push(...validateEmbedded(schema, object));
    const duplicates = validateListTypes(schema, object);
    // who had them before may keep them
    if (duplicates.length > 0 && (old === undefined || validateListTypes(schema, old).length === 0)) errors.push(...duplicates);
  }
  if (errors.some(({ type }) => blocking.has(type))) return rulesSkipped(schema, errors);
  errors.push(...checkRules(schema, object, old, metrics));
  return errors;
}

/** A write of the status answers for the status alone, whose schema knows nothing of where it stands. */
function validateStatus(schema: SchemaNode, object: KubeObject, old: KubeObject | undefined): readonly FieldError[] {
  const status = schema.property('status');
  const value = part(object, 'status');
  if (status === undefined || value === undefined) return [];
  const before = old && part(old, 'status');
  return validateValue(status, value, before === undefined ? undefined : { value: before }).map((error) => ({
    ...error,
    field: error.field === '' || error.field === nowhere ? 'status' : `status.${error.field}`,
  }));
}

const body = (object: KubeObject) => withParts(object, { metadata: undefined });

/** Everything but metadata and status counts as the spec. */
const specChanged = (object: KubeObject, old: KubeObject): boolean =>
  !jsonEqual(withParts(body(object), { status: undefined }), withParts(body(old), { status: undefined }));

function warnOfFinalizers(object: KubeObject, old: KubeObject | undefined, { warn }: StrategyContext): readonly FieldError[] {
  const added = (object.metadata?.finalizers ?? []).filter((name) => old?.metadata?.finalizers?.includes(name) !== true);
  for (const warning of finalizerWarnings(added.sort())) warn(warning);
  return [];
}
const finalizers: Pick<Strategy, 'validate' | 'validateUpdate'> = {
  validate: (object, context) => warnOfFinalizers(object, undefined, context),
  validateUpdate: warnOfFinalizers,
};

const withStatus: Strategy = {
  ...finalizers,
  keepsStatus: true,
  unconditionalUpdate: false,
  create: (object) => withParts(object, { status: undefined }),
  generation: specChanged,
  subresources: {
    status: {
      // only the status is written, whatever else was sent
      prepare(object, old) {
        const { resourceVersion, managedFields } = object.metadata ?? {};
        return withMeta(withParts(old, { status: part(object, 'status'), apiVersion: object.apiVersion }), {
          resourceVersion,
          managedFields,
        });
      },
    },
  },
};
const withoutStatus: Strategy = {
  ...finalizers,
  keepsStatus: true,
  unconditionalUpdate: false,
  generation: (object, old) => !jsonEqual(body(object), body(old)),
};

function fieldsOf({ selectableFields = [] }: CustomResourceDefinitionVersion, namespaced: boolean): FieldReaders {
  const own = namespaced ? namespacedFields : metaFields;
  if (selectableFields.length === 0) return own;
  const readers: Record<string, (object: KubeObject) => string> = { ...own };
  for (const { jsonPath } of selectableFields) readers[jsonPath.slice(1)] = fieldReader(jsonPath);
  return readers;
}

function deprecationOf({ spec }: CustomResourceDefinition, version: CustomResourceDefinitionVersion): string | undefined {
  if (version.deprecated !== true) return undefined;
  if (version.deprecationWarning !== undefined) return version.deprecationWarning;
  const newer = spec.versions
    .filter(({ name, served, deprecated }) => served && deprecated !== true && compareVersions(name, version.name) < 0)
    .sort((a, b) => compareVersions(a.name, b.name))[0];
  const { kind } = spec.names;
  return `${spec.group}/${version.name} ${kind} is deprecated${newer === undefined ? '' : `; use ${spec.group}/${newer.name} ${kind}`}`;
}
