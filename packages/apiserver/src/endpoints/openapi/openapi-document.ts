import type { Kind } from '@oarlock/api/kinds';
import { ParameterWriter } from './internal/parameters.ts';
import { isPublished, openApiPathsOf, type DocumentContext, type PathEntry } from './internal/paths.ts';
import type { Json, OpenApiVersion } from './internal/definition-names.ts';
import { SchemaDefinitions } from './internal/schema-definitions.ts';
import { groupPath, groupVersionPath, otherDocuments, otherPath } from './internal/unversioned-paths.ts';

/** One part of an OpenAPI document. The document is a sequence of parts, so that the consumer can yield to the event loop between them. */
export type OpenApiPart =
  | { readonly kind: 'head'; readonly value: Json }
  | { readonly kind: 'path' | 'definition'; readonly name: string; readonly value: Json }
  | { readonly kind: 'tail'; readonly value: Json };

const bearer = { BearerToken: { description: 'Bearer Token authentication', type: 'apiKey', name: 'authorization', in: 'header' } };

/** Yields the parts of the OpenAPI document of the given kinds. Paths precede the definitions that they refer to. */
export function openApiParts(kinds: readonly Kind[], openApi: OpenApiVersion, version: string): Generator<OpenApiPart> {
  return documentParts(openApi, version, (context) => pathsOfKinds(kinds, context));
}

/**
 * Yields the parts of the OpenAPI v3 document of a path without a version: `api`, `apis`, `apis/GROUP`, `version` and the documents of
 * `unversionedDocuments`.
 */
export function unversionedParts(name: string, version: string): Generator<OpenApiPart> {
  return documentParts(3, version, function* (context) {
    const group = name === 'api' ? '' : name.startsWith('apis/') ? name.slice('apis/'.length) : undefined;
    const entry = group === undefined ? otherPath(name, context) : groupPath(group, context);
    if (entry !== undefined) yield entry;
  });
}

/** Returns the names of the OpenAPI v3 documents of paths without a version. CustomResourceDefinitions have no group document. */
export function unversionedDocuments(kinds: readonly Kind[]): readonly string[] {
  return [...groupsOf(kinds).map((group) => (group === '' ? 'api' : `apis/${group}`)), ...otherDocuments];
}

const groupsOf = (kinds: readonly Kind[]): readonly string[] => [
  ...new Set(kinds.filter((kind) => !isPublished(kind)).map(({ group }) => group)),
];

function* documentParts(
  openApi: OpenApiVersion,
  version: string,
  pathsOf: (context: DocumentContext) => Iterable<PathEntry>,
): Generator<OpenApiPart> {
  const definitions = new SchemaDefinitions(openApi);
  const parameters = new ParameterWriter(openApi);
  yield { kind: 'head', value: { ...(openApi === 2 ? { swagger: '2.0' } : { openapi: '3.0.0' }), info: { title: 'Kubernetes', version } } };
  for (const [name, value] of pathsOf({ definitions, parameters, version: openApi })) yield { kind: 'path', name, value };
  for (const [name, value] of definitions.bodies()) yield { kind: 'definition', name, value };
  const { shared } = parameters;
  yield {
    kind: 'tail',
    value: openApi === 2 ? { parameters: shared, securityDefinitions: bearer, security: [{ BearerToken: [] }] } : bearer,
  };
}

/** Yields the paths of kinds and of their groups and versions. The OpenAPI v2 document also has all paths without a version. */
function* pathsOfKinds(kinds: readonly Kind[], context: DocumentContext): Generator<PathEntry> {
  if (context.version === 2) {
    for (const name of otherDocuments) {
      const entry = otherPath(name, context);
      if (entry !== undefined) yield entry;
    }
    for (const group of groupsOf(kinds)) yield groupPath(group, context);
  }
  const seen = new Set<string>();
  for (const kind of kinds) {
    const groupVersion = `${kind.group}/${kind.version}`;
    if (!seen.has(groupVersion) && !isPublished(kind)) yield groupVersionPath(kind.group, kind.version, context);
    seen.add(groupVersion);
    yield* openApiPathsOf(kind, context);
  }
}

/** Yields the JSON text of the parts of a document. */
export function* jsonOf(parts: Iterable<OpenApiPart>, openApi: OpenApiVersion): Generator<string> {
  const definitions = openApi === 2 ? ',"definitions":{' : ',"components":{"schemas":{';
  let within: OpenApiPart['kind'] | undefined;
  for (const part of parts) {
    if (part.kind === 'head') {
      yield `${JSON.stringify(part.value).slice(0, -1)},"paths":{`;
      continue;
    }
    const first = within !== part.kind;
    if (part.kind === 'tail') {
      if (within !== 'definition') yield `}${definitions}`;
      yield openApi === 2 ? `},${JSON.stringify(part.value).slice(1)}` : `},"securitySchemes":${JSON.stringify(part.value)}}}`;
      return;
    }
    if (first && part.kind === 'definition') yield `}${definitions}`;
    yield `${first ? '' : ','}${JSON.stringify(part.name)}:${JSON.stringify(part.value)}`;
    within = part.kind;
  }
}
