import type { Kind } from '@oarlock/api/kinds';
import { publishedSchemaOf, type PublishedKind } from '../../custom-resources/published-kind.ts';
import { capitalize } from './capitalize.ts';
import { refToCustomKind, refToCustomList } from './custom-resource-schemas.ts';
import { kindOperations, subresourceOperations, type Operation } from './operations.ts';
import { pathItem, type PathTemplate } from './path-item.ts';
import { definitionId, type Json, type OpenApiVersion, type SchemaDefinitions } from './schema-definitions.ts';

const patchTypes = [
  'application/apply-patch+yaml',
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/strategic-merge-patch+json',
];
/** The media types of PATCH for custom resources, which have no strategic merge patch because they have no Go types. */
const customPatchTypes = patchTypes.filter((type) => !type.includes('strategic'));

/** Yields the path items of one kind: for its collections, objects and subresources. */
export function* openApiPathsOf(
  kind: Kind,
  definitions: SchemaDefinitions,
  version: OpenApiVersion,
): Generator<readonly [path: string, item: Json]> {
  const { group, version: apiVersion, resource, namespaced, verbs } = kind;
  const root = group === '' ? `/api/${apiVersion}` : `/apis/${group}/${apiVersion}`;
  const title = group === '' ? 'core' : (group.split('.')[0] ?? '');
  const tag = `${group === '' ? 'core' : camel(group)}_${apiVersion}`;
  const gvk = { group, version: apiVersion, kind: kind.kind };
  const published = publishedSchemaOf(kind) === undefined ? undefined : (kind as PublishedKind);
  const template = (path: string, named: boolean, inNamespace: boolean): PathTemplate => ({
    path,
    tag,
    name: `${capitalize(title)}${capitalize(apiVersion)}${inNamespace ? 'Namespaced' : ''}${kind.kind}`,
    kind: gvk,
    namespaced: inNamespace,
    named,
    patchTypes: published === undefined ? patchTypes : customPatchTypes,
  });
  const collection = `${root}/${namespaced ? 'namespaces/{namespace}/' : ''}${resource}`;
  const object = published === undefined ? definitions.refToKind(definitionId(gvk), gvk) : refToCustomKind(published, definitions, version);
  const list = () =>
    published === undefined ? definitions.refToList(definitionId(gvk), gvk) : refToCustomList(published, definitions, version);
  const operations = kindOperations(kind, { gvk, object, list }, definitions);
  const item = (path: PathTemplate, pathOperations: readonly Operation[]) => [path.path, pathItem(path, pathOperations, version)] as const;
  yield item(template(collection, false, namespaced), operations.collection);
  if (operations.object.length > 0) yield item(template(`${collection}/{name}`, true, namespaced), operations.object);
  if (namespaced && verbs.includes('list'))
    yield item(
      {
        ...template(`${root}/${resource}`, false, false),
        name: `${capitalize(title)}${capitalize(apiVersion)}${kind.kind}ForAllNamespaces`,
      },
      operations.allNamespaces,
    );
  for (const subresource of kind.subresources) {
    const path = {
      ...template(`${collection}/{name}/${subresource.name}`, true, namespaced),
      kind: { group: subresource.group, version: subresource.version, kind: subresource.kind },
    };
    // the status is written as the whole object
    const own = published !== undefined && subresource.kind === kind.kind ? object : undefined;
    yield item({ ...path, name: `${path.name}${capitalize(subresource.name)}` }, subresourceOperations(subresource, definitions, own));
  }
}

/** Converts a group name to camel case: `rbacAuthorization` for `rbac.authorization.k8s.io`. */
function camel(group: string): string {
  const [first = '', ...rest] = group.replace(/\.k8s\.io$/, '').split('.');
  return first + rest.map(capitalize).join('');
}
