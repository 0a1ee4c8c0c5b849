import type { GroupVersionKind, Kind } from '@oarlock/api/kinds';
import type { FeatureGates } from '@oarlock/api/component-helpers/feature-gates';
import type { FieldError } from '@oarlock/api/field/field-error';
import type { FieldType } from '@oarlock/api/managed-fields/field-type';
import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf, groupResource, resource, type Resource } from '@oarlock/api/resource';
import { applyDefaults } from '@oarlock/api/defaulting/apply-defaults';
import { withNonOmittedFields } from '@oarlock/api/schema/non-omitted-fields';
import { schemaOf, type Schema } from '@oarlock/api/schema/schema';
import type { CustomResourceSubresourceScale } from '@oarlock/api/types/apiextensions-v1';
import type { EncodedObject } from '../endpoints/request/response.ts';
import type { Strategy } from './strategy.ts';
import { Codec, DerivedObject, type Item } from '../watch-cache/item.ts';
import type { ItemConverter } from '../watch-cache/watch-cache-event.ts';
import type { ResourceCache, CachedResource } from '../watch-cache/resource-cache.ts';
import type { FieldReaders } from '../watch-cache/selection.ts';
import { storageRoot } from '../storage/storage-root.ts';
import type { Caller } from '../watch-cache/watch-cache-options.ts';

/** A stored resource: its storage version, its key prefix and its cache. */
export interface StoredKind extends CachedResource {
  readonly resource: Resource;
  /** The prefix of the storage keys, such as `/registry/pods/`. */
  readonly storagePrefix: string;
  readonly cache: ResourceCache;
}

/** The conversion between a served version and the storage version. */
export interface VersionConversion {
  toStored(object: KubeObject): KubeObject;
  fromStored(object: KubeObject): KubeObject;
  /** The fields that field selectors of this version may name. */
  readonly fields?: FieldReaders;
}

/** A custom resource that a request creates or updates. */
export interface CustomResourceWrite {
  readonly object: KubeObject;
  /** The object before the update; undefined for a new object. */
  readonly old: KubeObject | undefined;
  /** The subresource of the write; '' for the object itself. */
  readonly subresource: string;
  /** The request body that contained the object. */
  readonly sent: unknown;
}

/** The rules by which custom resources differ from built-in kinds. */
export interface CustomResourceRules {
  /** True while the CustomResourceDefinition is being deleted: new objects are rejected. */
  readonly isTerminating: boolean;
  /** True if a webhook converts objects of other versions: `prepareConversion` must complete before `toServedItem`. */
  readonly convertsByWebhook: boolean;
  /**
   * Validates the types of metadata fields, prunes unknown fields and applies defaults.
   * @throws StatusError BadRequest if metadata has the wrong type
   */
  withDefaults(object: KubeObject): KubeObject;
  /** Validates a custom resource. Replaces the validation of @oarlock/api. Returns the errors; empty if the object is valid. */
  validate(write: CustomResourceWrite): readonly FieldError[];
  /** Returns the fields that the schema does not declare, as strict decoding errors. */
  unknownFields(object: KubeObject): readonly string[];
  /** Converts an object to the storage version. Strategies and validation are applied to the served version. */
  toStored(object: KubeObject): KubeObject | Promise<KubeObject>;
  /** Converts an object of another version to this version. @throws StatusError InternalError if the conversion fails */
  convert(object: KubeObject): KubeObject | Promise<KubeObject>;
  /**
   * Converts items that `toServedItem` will return; returns undefined if no item needs a webhook.
   * @throws StatusError InternalError if the conversion fails
   */
  prepareConversion(items: readonly Item[], signal?: AbortSignal): Promise<void> | undefined;
  /** The paths of the scale subresource; undefined if this version has none. */
  readonly scale: CustomResourceSubresourceScale | undefined;
}

/** A resource in one served version. */
export interface ServedKind {
  readonly kind: Kind;
  readonly resource: Resource;
  readonly gvk: GroupVersionKind;
  readonly apiVersion: string;
  readonly namespaced: boolean;
  /** The deprecation warning for clients of this version; undefined if the version is not deprecated. */
  readonly warning: string | undefined;
  readonly schema: Schema | undefined;
  /** The field type for server-side apply; derived from `schema` if absent. Custom resources derive it from their own schema. */
  readonly fieldType?: FieldType | undefined;
  readonly strategy: Strategy;
  /** True if Services and endpoints may have loopback addresses, because the pods of the cluster have loopback addresses. */
  readonly allowLoopback: boolean;
  /** The feature gates of the cluster. Absent for custom resources, to which no gate applies. */
  readonly features?: FeatureGates;
  /** The fields that field selectors may name. The functions read stored objects. */
  readonly fields: FieldReaders;
  readonly storedKind: StoredKind;
  readonly cache: ResourceCache;
  readonly conversion: VersionConversion | undefined;
  /** Converts a stored item to this version; undefined for the storage version. */
  readonly toServedItem: ItemConverter | undefined;
  /** The rules of a custom resource; undefined for a built-in kind. */
  readonly customResource?: CustomResourceRules;
}

/** The warnings about versions that 1.36 deprecates, by `group/version/resource`. Those of alpha and beta versions name their removal. */
const deprecationWarnings: Readonly<Record<string, string>> = {
  '/v1/endpoints': 'v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice',
  'networking.k8s.io/v1beta1/ipaddresses': 'networking.k8s.io/v1beta1 IPAddress is deprecated in v1.34+, unavailable in v1.37+',
  'networking.k8s.io/v1beta1/servicecidrs': 'networking.k8s.io/v1beta1 ServiceCIDR is deprecated in v1.34+, unavailable in v1.37+',
  'storage.k8s.io/v1beta1/volumeattributesclasses':
    'storage.k8s.io/v1beta1 VolumeAttributesClass is deprecated in v1.34+, unavailable in v1.37+; use storage.k8s.io/v1 VolumeAttributesClass',
  'certificates.k8s.io/v1beta1/clustertrustbundles':
    'certificates.k8s.io/v1beta1 ClusterTrustBundle is deprecated in v1.36+, unavailable in v1.39+',
  'coordination.k8s.io/v1alpha2/leasecandidates':
    'coordination.k8s.io/v1alpha2 LeaseCandidate is deprecated in v1.35+, unavailable in v1.38+',
  'coordination.k8s.io/v1beta1/leasecandidates':
    'coordination.k8s.io/v1beta1 LeaseCandidate is deprecated in v1.36+, unavailable in v1.39+',
  ...Object.fromEntries(
    ['DeviceClass', 'ResourceClaim', 'ResourceClaimTemplate', 'ResourceSlice'].flatMap((kind) => {
      const plural = kind.endsWith('s') ? `${kind}es` : `${kind}s`;
      return [
        [
          `resource.k8s.io/v1beta1/${plural.toLowerCase()}`,
          `resource.k8s.io/v1beta1 ${kind} is deprecated in v1.35+, unavailable in v1.38+`,
        ],
        [
          `resource.k8s.io/v1beta2/${plural.toLowerCase()}`,
          `resource.k8s.io/v1beta2 ${kind} is deprecated in v1.36+, unavailable in v1.39+`,
        ],
      ];
    }),
  ),
  'resource.k8s.io/v1alpha3/devicetaintrules': 'resource.k8s.io/v1alpha3 DeviceTaintRule is deprecated in v1.36+, unavailable in v1.39+',
};
/** Returns the deprecation warning of a resource version; undefined if it is not deprecated. */
export const deprecationWarning = (group: string, version: string, resource: string): string | undefined =>
  deprecationWarnings[`${group}/${version}/${resource}`];

const metaFields: FieldReaders = { 'metadata.name': ({ metadata }) => metadata?.name ?? '' };
const namespacedFields: FieldReaders = { ...metaFields, 'metadata.namespace': ({ metadata }) => metadata?.namespace ?? '' };

/** The resources with many objects that no component in this process reads, so that objects are decoded on demand. */
const rarelyReadResources: ReadonlySet<string> = new Set(['events']);
/** The API groups whose objects contain arbitrary JSON of users, such as defaults in schemas, in which numbers must keep every digit. */
export const groupsPreservingNumbers: ReadonlySet<string> = new Set(['apiextensions.k8s.io']);

/** Returns the part of a stored kind that the watch cache needs, which exists before the cache is created. */
export function cachedResource(
  { group, version, resource: name, kind, namespaced }: Kind,
  { fields, indexField }: Strategy,
): CachedResource {
  const read = indexField === undefined ? undefined : fields?.[indexField];
  return {
    name: groupResource({ group, resource: name }),
    namespaced,
    codec: new Codec(apiVersionOf({ group, version }), kind, {
      decodesOnDemand: rarelyReadResources.has(groupResource({ group, resource: name })),
      preservesNumbers: groupsPreservingNumbers.has(group),
    }),
    ...(indexField !== undefined && read !== undefined && { index: { field: indexField, value: read } }),
  };
}

export function storedKind(kind: Kind, cache: ResourceCache): StoredKind {
  return { ...cache.resource, resource: resourceOf(kind), storagePrefix: `${storageRoot}${cache.resource.name}/`, cache };
}

export interface ServedKindOptions {
  readonly kind: Kind;
  readonly store: StoredKind;
  readonly strategy: Strategy;
  /** The conversion of the version; undefined for the storage version. */
  readonly conversion: VersionConversion | undefined;
  readonly allowLoopback: boolean;
  readonly features: FeatureGates;
}

/** Returns the served kind of one version of a built-in resource. */
export function newServedKind({ kind, store, strategy, conversion, allowLoopback, features }: ServedKindOptions): ServedKind {
  const { group, version, namespaced } = kind;
  const gvk = { group, version, kind: kind.kind };
  return {
    kind,
    resource: resourceOf(kind),
    gvk,
    apiVersion: apiVersionOf({ group, version }),
    namespaced,
    warning: deprecationWarning(group, version, kind.resource),
    schema: schemaOf(gvk),
    strategy,
    allowLoopback,
    features,
    storedKind: store,
    cache: store.cache,
    conversion,
    fields: { ...(namespaced ? namespacedFields : metaFields), ...(conversion?.fields ?? strategy.fields) },
    toServedItem: conversion && itemConverter(conversion),
  };
}

const resourceOf = ({ group, version, resource: name, kind, namespaced }: Kind) => resource(group, version, name, kind, namespaced);

function itemConverter({ fromStored }: VersionConversion): ItemConverter {
  const views = new WeakMap<Item, DerivedObject>();
  return (item) => {
    let view = views.get(item);
    if (view === undefined) views.set(item, (view = new DerivedObject(fromStored(item.object), item.revision)));
    return view;
  };
}

/** Returns the key of an object within its resource: `namespace/name`, or `name` for cluster-scoped kinds. */
export function keyOf({ namespaced }: Pick<ServedKind, 'namespaced'>, namespace: string, name: string): string {
  return namespaced ? `${namespace}/${name}` : name;
}

/** Returns the object with the defaults of its kind; defaults that are times only with `now`. @throws StatusError BadRequest if a custom resource has invalid metadata */
export function withDefaults(kind: Pick<ServedKind, 'gvk' | 'customResource'>, object: KubeObject, now?: number): KubeObject {
  return kind.customResource === undefined ? applyDefaults(kind.gvk, object, now) : kind.customResource.withDefaults(object);
}

/** Returns the object, in its storage version, with the empty fields that Go encodes because they have no `omitempty`. */
export function withEmptyFields(
  { schema, conversion, customResource: custom, storedKind: store }: ServedKind,
  object: KubeObject,
): KubeObject {
  if (custom !== undefined) return object;
  const stored = conversion === undefined ? schema : schemaOf(store.resource);
  return stored === undefined ? object : withNonOmittedFields(stored, object);
}

/** Converts a stored item to the served version. Returns a promise if a webhook must convert it. */
export function toServed(
  { toServedItem: viewer, customResource: custom }: ServedKind,
  item: Item,
  caller?: Caller,
): EncodedObject | Promise<EncodedObject> {
  if (viewer === undefined) return item;
  const ready = custom?.prepareConversion([item], caller?.signal);
  return ready === undefined ? viewer(item) : ready.then(() => viewer(item));
}
