import { isObject } from '@oarlock/api/json/json';
import type { OpenApiPart } from './openapi-document.ts';
import type { Json } from './internal/schema-definitions.ts';
import { protobufOf } from './internal/openapi-v2-protobuf.ts';

/** The OpenAPI v2 document of another API server, and the groups whose paths are taken from it. */
export interface AggregatedDocument {
  readonly groups: readonly string[];
  readonly document: Json;
}

/** Merges the documents of other servers into the parts of a v2 document. Existing names are not replaced. */
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
    yield part;
  }
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

/** Returns true if the protobuf form can express the part; other parts are dropped, so that both forms contain the same. */
function isExpressible(part: OpenApiPart): boolean {
  try {
    for (const _ of protobufOf([part]));
    return true;
  } catch {
    return false;
  }
}
