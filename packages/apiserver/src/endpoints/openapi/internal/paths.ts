import type { Kind } from '@oarlock/api/kinds';
import { publishedSchemaOf, type PublishedKind } from '../../../custom-resources/published-kind.ts';
import { refToCustomKind, refToCustomList } from './custom-resource-schemas.ts';
import { KindOperations } from './operations.ts';
import type { ParameterWriter } from './parameters.ts';
import { pathItem, type Operation } from './path-item.ts';
import { definitionId, type Json, type OpenApiVersion } from './definition-names.ts';
import type { SchemaDefinitions } from './schema-definitions.ts';

export type PathEntry = readonly [path: string, item: Json];
/** What the paths of one document share. */
export interface DocumentContext {
  readonly definitions: SchemaDefinitions;
  readonly parameters: ParameterWriter;
  readonly version: OpenApiVersion;
}

export const isPublished = (kind: Kind): kind is PublishedKind => publishedSchemaOf(kind) !== undefined;

/** Yields the path items of one kind: for its collections, objects, subresources and watches. */
export function* openApiPathsOf(kind: Kind, { definitions, parameters, version }: DocumentContext): Generator<PathEntry> {
  const { group, version: apiVersion, resource, namespaced } = kind;
  const root = group === '' ? `/api/${apiVersion}` : `/apis/${group}/${apiVersion}`;
  const gvk = { group, version: apiVersion, kind: kind.kind };
  const isCustom = isPublished(kind);
  const operations = new KindOperations(
    kind,
    {
      isCustom,
      object: isCustom ? refToCustomKind(kind, definitions, version) : definitions.refToKind(definitionId(gvk), gvk),
      list: () => (isCustom ? refToCustomList(kind, definitions, version) : definitions.refToList(definitionId(gvk), gvk)),
    },
    definitions,
  );
  const scope = namespaced ? 'namespaces/{namespace}/' : '';
  const collection = `${scope}${resource}`;
  const object = `${collection}/{name}`;
  const rows: [path: string, operations: readonly Operation[]][] = [
    [`${root}/${collection}`, operations.collection()],
    [`${root}/${object}`, operations.object()],
    [`${root}/${resource}`, operations.allNamespaces()],
    ...kind.subresources.flatMap((subresource): [string, readonly Operation[]][] => [
      [`${root}/${object}/${subresource.name}`, operations.subresource(subresource)],
      ...(subresource.name === 'proxy'
        ? [[`${root}/${object}/proxy/{path}`, operations.subresource(subresource, true)] as [string, readonly Operation[]]]
        : []),
    ]),
    [`${root}/watch/${collection}`, operations.watch('collection')],
    [`${root}/watch/${object}`, operations.watch('object')],
    [`${root}/watch/${resource}`, operations.watch('allNamespaces')],
  ];
  for (const [path, list] of rows) if (list.length > 0) yield [path, pathItem(list, parameters, version)];
}
