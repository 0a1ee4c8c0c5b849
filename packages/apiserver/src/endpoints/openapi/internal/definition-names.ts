import type { GroupVersionKind } from '@oarlock/api/kinds';
import { definitionOf, type Schema } from '@oarlock/api/schema/schema';

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
export const scalarDefinitions: Readonly<Record<string, { readonly name: string; readonly body: (version: OpenApiVersion) => Json }>> = {
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

/** The definitions of untyped values, by the last part of their name. */
export const rawDefinitions: Readonly<Record<string, { readonly name: string; readonly body: Json }>> = {
  FieldsV1: { name: 'io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1', body: { type: 'object' } },
  RawExtension: { name: 'io.k8s.apimachinery.pkg.runtime.RawExtension', body: { type: 'object' } },
  ...Object.fromEntries(
    ['JSON', 'JSONSchemaPropsOrArray', 'JSONSchemaPropsOrBool', 'JSONSchemaPropsOrStringArray'].map((name) => [
      name,
      { name: `io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.${name}`, body: {} },
    ]),
  ),
};
/** The kinds that are registered with every group and version. */
export const optionKinds: ReadonlySet<string> = new Set(['meta/v1.DeleteOptions', 'meta/v1.WatchEvent']);

/** Returns the OpenAPI name of a definition ID: `io.k8s.api.core.v1.Pod` for `core/v1.Pod`. */
export function definitionName(id: string): string {
  const slash = id.indexOf('/');
  const scope = id.slice(0, slash);
  return `${packages[scope] ?? `io.k8s.api.${scope.split('.')[0]}`}.${id.slice(slash + 1)}`;
}

/** Returns the kind of the objects of a definition, also if the document has no operation for it; undefined for other definitions. */
export function kindOfDefinition({ name = '', properties }: Schema): GroupVersionKind | undefined {
  const [scope = '', rest = ''] = [name.slice(0, name.indexOf('/')), name.slice(name.indexOf('/') + 1)];
  const dot = rest.indexOf('.');
  const [version, kind] = [rest.slice(0, dot), rest.slice(dot + 1)];
  if (scope === 'meta') return discoveryKinds.has(kind) ? { group: '', version, kind } : undefined;
  const isObject = ['apiVersion', 'kind', 'metadata'].every((member) => properties?.has(member) === true);
  return isObject ? { group: scope === 'core' ? '' : scope, version, kind } : undefined;
}
/** The kinds of apimachinery that are registered with the core group only. */
const discoveryKinds: ReadonlySet<string> = new Set(['APIGroup', 'APIGroupList', 'APIResourceList', 'APIVersions', 'Status']);

/** Returns the definition ID of a kind. Kinds of apimachinery have their definition in `meta/v1` for every group. */
export function definitionId({ group, version, kind }: GroupVersionKind): string {
  const id = `${group === '' ? 'core' : group}/${version}.${kind}`;
  return definitionOf(id) === undefined && definitionOf(`meta/v1.${kind}`) !== undefined ? `meta/v1.${kind}` : id;
}
