import type { GroupVersionKind, Kind } from '@oarlock/api/kinds';
import type { FieldError } from '@oarlock/api/field-error';
import type { FieldType } from '@oarlock/api/managed-fields/field-type';
import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf, groupResource, resource, type Resource } from '@oarlock/api/resource';
import { applyDefaults } from '@oarlock/api/defaulting';
import { withWrittenFields } from '@oarlock/api/written-fields';
import { schemaOf, type Schema } from '@oarlock/api/schema';
import type { Call } from './call.ts';
import type { Machinery } from './machinery.ts';
import type { Encoded, PipelineResponse } from './response.ts';
import type { Strategy } from './strategy/strategy.ts';
import { Codec, View, type Item, type Viewer } from './watch-cache/item.ts';
import type { ResourceCache, StoredResource } from './watch-cache/resource-cache.ts';
import type { FieldReaders } from './watch-cache/selection.ts';
import { root, type Asker } from './watch-cache/watch-cache.ts';

/** One stored resource: where its objects are, and in which version. */
export interface StoredKind extends StoredResource {
  readonly resource: Resource;
  /** `/registry/pods/` */
  readonly prefix: string;
  readonly cache: ResourceCache;
}

/** Between a served version and the stored one. */
export interface Conversion {
  toStored(object: KubeObject): KubeObject;
  fromStored(object: KubeObject): KubeObject;
  /** Fields as selectors of this version name them. */
  readonly fields?: FieldReaders;
}

/** What kinds that a CustomResourceDefinition makes do in their own way. */
export interface CustomRules {
  /** No new objects: the definition is being deleted. */
  readonly terminating: boolean;
  /** Objects of other versions are converted by somebody else: `prepare` has to be waited for. */
  readonly awaits: boolean;
  /** The object with metadata of the right types, without unknown fields, with its defaults. @throws StatusError BadRequest */
  complete(object: KubeObject): KubeObject;
  /** Everything that is wrong with it, in place of the validation of @oarlock/api. */
  /** `sent` is the body that the object came in. */
  validate(object: KubeObject, old: KubeObject | undefined, subresource: string, sent: unknown): readonly FieldError[];
  /** Fields that the schema does not know, as strict decoding names them. */
  unknownFields(object: KubeObject): readonly string[];
  /** In the version in which it is to be stored. Strategies and validation have seen it in the served one. */
  toStored(object: KubeObject): KubeObject | Promise<KubeObject>;
  /** An object of another version in this one. @throws StatusError InternalError */
  convert(object: KubeObject): KubeObject | Promise<KubeObject>;
  /** Has to be done before `viewer` can show these; undefined when nothing has. @throws StatusError InternalError */
  prepare(items: readonly Item[], signal?: AbortSignal): Promise<void> | undefined;
  /** Its scale subresource, where it has one. */
  readonly scale: ((machinery: Machinery, call: Call) => Promise<PipelineResponse>) | undefined;
}

/** One resource in one version, as requests name it. */
export interface ServedKind {
  readonly kind: Kind;
  readonly resource: Resource;
  readonly gvk: GroupVersionKind;
  readonly apiVersion: string;
  readonly namespaced: boolean;
  /** What whoever uses this version is warned of. */
  readonly warning: string | undefined;
  readonly schema: Schema | undefined;
  /** By which server-side apply merges; made of `schema` when absent. Custom resources bring `openApiType` of theirs. */
  readonly fieldType?: FieldType | undefined;
  readonly strategy: Strategy;
  /** Services and endpoints may be at loopback addresses: all pods of the cluster are. */
  readonly allowLoopback: boolean;
  /** Everything that field selectors may name. They read stored objects. */
  readonly fields: FieldReaders;
  readonly store: StoredKind;
  readonly cache: ResourceCache;
  readonly conversion: Conversion | undefined;
  /** Shows stored items in this version; undefined for the stored version. */
  readonly viewer: Viewer | undefined;
  /** Absent for built-in kinds. */
  readonly custom?: CustomRules;
}

/** Versions that are served by default and should be used no more, by `group/version/resource`. */
const deprecations: Readonly<Record<string, string>> = {
  '/v1/endpoints': 'v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice',
};
/** What whoever uses a version of a resource is warned of; undefined when nothing is wrong with it. */
export const deprecationOf = (group: string, version: string, resource: string): string | undefined =>
  deprecations[`${group}/${version}/${resource}`];

const metaFields: FieldReaders = { 'metadata.name': ({ metadata }) => metadata?.name ?? '' };
const namespacedFields: FieldReaders = { ...metaFields, 'metadata.namespace': ({ metadata }) => metadata?.namespace ?? '' };

/** There are many of these, and nobody reads them along. */
const seldomRead: ReadonlySet<string> = new Set(['events']);
/** Groups whose objects hold values of users' own, such as defaults in schemas. */
export const holdsJson: ReadonlySet<string> = new Set(['apiextensions.k8s.io']);

/** The part of a stored kind that the cache has to know before there is a cache. */
export function storedResource(
  { group, version, resource: name, kind, namespaced }: Kind,
  { fields, indexField }: Strategy,
): StoredResource {
  const read = indexField === undefined ? undefined : fields?.[indexField];
  return {
    name: groupResource({ group, resource: name }),
    namespaced,
    codec: new Codec(apiVersionOf({ group, version }), kind, {
      seldomRead: seldomRead.has(groupResource({ group, resource: name })),
      exact: holdsJson.has(group),
    }),
    ...(indexField !== undefined && read !== undefined && { index: { field: indexField, value: read } }),
  };
}

export function storedKind(kind: Kind, cache: ResourceCache): StoredKind {
  return { ...cache.resource, resource: resourceOf(kind), prefix: `${root}${cache.resource.name}/`, cache };
}

export function servedKind(
  kind: Kind,
  store: StoredKind,
  strategy: Strategy,
  conversion: Conversion | undefined,
  allowLoopback: boolean,
): ServedKind {
  const { group, version, namespaced } = kind;
  const gvk = { group, version, kind: kind.kind };
  return {
    kind,
    resource: resourceOf(kind),
    gvk,
    apiVersion: apiVersionOf({ group, version }),
    namespaced,
    warning: deprecationOf(group, version, kind.resource),
    schema: schemaOf(gvk),
    strategy,
    allowLoopback,
    store,
    cache: store.cache,
    conversion,
    fields: { ...(namespaced ? namespacedFields : metaFields), ...(conversion?.fields ?? strategy.fields) },
    viewer: conversion && viewerOf(conversion),
  };
}

const resourceOf = ({ group, version, resource: name, kind, namespaced }: Kind) => resource(group, version, name, kind, namespaced);

function viewerOf({ fromStored }: Conversion): Viewer {
  const views = new WeakMap<Item, View>();
  return (item) => {
    let view = views.get(item);
    if (view === undefined) views.set(item, (view = new View(fromStored(item.object), item.revision)));
    return view;
  };
}

/** The key of an object within its resource. */
export function keyOf({ namespaced }: Pick<ServedKind, 'namespaced'>, namespace: string, name: string): string {
  return namespaced ? `${namespace}/${name}` : name;
}

/** The object with all that its kind fills in. @throws StatusError BadRequest */
export function completed(kind: Pick<ServedKind, 'gvk' | 'custom'>, object: KubeObject): KubeObject {
  return kind.custom === undefined ? applyDefaults(kind.gvk, object) : kind.custom.complete(object);
}

/** The object, in its stored version, with all fields that are there however empty they are. */
export function written({ schema, conversion, custom, store }: ServedKind, object: KubeObject): KubeObject {
  if (custom !== undefined) return object;
  const stored = conversion === undefined ? schema : schemaOf(store.resource);
  return stored === undefined ? object : withWrittenFields(stored, object);
}

/** A stored item as the kind shows it; a promise where somebody else has to convert it first. */
export function show({ viewer, custom }: ServedKind, item: Item, asker?: Asker): Encoded | Promise<Encoded> {
  if (viewer === undefined) return item;
  const ready = custom?.prepare([item], asker?.signal);
  return ready === undefined ? viewer(item) : ready.then(() => viewer(item));
}
