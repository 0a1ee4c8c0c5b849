import { isObject } from '@oarlock/api/json/json';
import type { OpenApiPart } from './openapi-document.ts';
import type { Json } from './internal/definition-names.ts';
import { protobufOf } from './internal/openapi-v2-protobuf.ts';

/** The OpenAPI v2 document of an extension API server, and the groups whose paths are taken from the document. */
export interface AggregatedDocument {
  readonly groups: readonly string[];
  readonly document: Json;
}

/** Yields the parts of an OpenAPI v2 document with the documents of extension API servers merged into it. Existing names are not replaced. */
export function* withAggregatedDocuments(parts: Iterable<OpenApiPart>, others: readonly AggregatedDocument[]): Generator<OpenApiPart> {
  const seen = new Set<string>();
  let pathsDone = false;
  for (const part of parts) {
    if (part.kind === 'definition' || part.kind === 'tail') {
      if (!pathsDone) yield* addedParts('path', others, seen);
      pathsDone = true;
      if (part.kind === 'tail') yield* addedParts('definition', others, seen);
    }
    if (part.kind === 'path' || part.kind === 'definition') seen.add(`${part.kind} ${part.name}`);
    yield part.kind === 'tail' ? withSharedParameters(part.value, others) : part;
  }
}

/** Returns the last part of the document with the shared parameters of the other documents. */
function withSharedParameters(tail: Json, others: readonly AggregatedDocument[]): OpenApiPart {
  const parameters: Record<string, unknown> = {};
  for (const { document } of others)
    for (const [name, value] of Object.entries(isObject(document['parameters']) ? document['parameters'] : {}))
      if (isExpressible({ kind: 'tail', value: { ...tail, parameters: { [name]: value } } })) parameters[name] = value;
  return { kind: 'tail', value: { ...tail, parameters: { ...parameters, ...(tail['parameters'] as Json) } } };
}

function* addedParts(kind: 'path' | 'definition', others: readonly AggregatedDocument[], seen: Set<string>): Generator<OpenApiPart> {
  for (const { groups, document } of others) {
    const values = document[kind === 'path' ? 'paths' : 'definitions'];
    if (!isObject(values)) continue;
    for (const [name, value] of Object.entries(values)) {
      const isIncluded = kind === 'definition' || groups.some((group) => name.startsWith(`/apis/${group}/`));
      if (!isIncluded || seen.has(`${kind} ${name}`) || !isObject(value)) continue;
      const part: OpenApiPart = { kind, name, value: value as Json };
      if (!isExpressible(part)) continue;
      seen.add(`${kind} ${name}`);
      yield part;
    }
  }
}

/** Returns true if the protobuf form of OpenAPI v2 can express the part. Other parts are omitted, so that the JSON and protobuf forms are equal. */
function isExpressible(part: OpenApiPart): boolean {
  try {
    for (const _ of protobufOf([part]));
    return true;
  } catch {
    return false;
  }
}
