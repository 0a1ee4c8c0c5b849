import type { Kind } from '@oarlock/api/kinds';
import { openApiPathsOf } from './internal/paths.ts';
import { SchemaDefinitions, type Json, type OpenApiVersion } from './internal/schema-definitions.ts';

/** One part of an OpenAPI document. The document is a sequence of parts, so that the consumer can yield to the event loop between them. */
export type OpenApiPart =
  | { readonly kind: 'head'; readonly value: Json }
  | { readonly kind: 'path' | 'definition'; readonly name: string; readonly value: Json }
  | { readonly kind: 'tail'; readonly value: Json };

const bearer = { BearerToken: { description: 'Bearer token', type: 'apiKey', name: 'authorization', in: 'header' } };

/** Yields the parts of the OpenAPI document of the given kinds. Paths precede the definitions that they refer to. */
export function* openApiParts(kinds: readonly Kind[], openApi: OpenApiVersion, version: string): Generator<OpenApiPart> {
  const definitions = new SchemaDefinitions(openApi);
  yield { kind: 'head', value: { ...(openApi === 2 ? { swagger: '2.0' } : { openapi: '3.0.0' }), info: { title: 'Kubernetes', version } } };
  for (const kind of kinds) for (const [name, value] of openApiPathsOf(kind, definitions, openApi)) yield { kind: 'path', name, value };
  const groupVersions = [
    ...new Map(kinds.map(({ group, version: v }) => [`${group}/${v}`, { group, version: v, kind: 'WatchEvent' }])).values(),
  ];
  definitions.refToKind('meta/v1.WatchEvent', ...groupVersions);
  for (const [name, value] of definitions.bodies()) yield { kind: 'definition', name, value };
  yield { kind: 'tail', value: openApi === 2 ? { securityDefinitions: bearer, security: [{ BearerToken: [] }] } : bearer };
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
