import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { openApiParts } from '../../../src/endpoints/openapi/openapi-document.ts';
import { documents, partsOf, served } from '../../support/openapi-documents.ts';

type Json = Readonly<Record<string, unknown>>;

/** Definition name -> hash of its structure in Kubernetes 1.36, from the facts of the API generator. */
const structures = JSON.parse(readFileSync(new URL('./definition-structures.json', import.meta.url), 'utf8')) as Readonly<
  Record<string, string>
>;
/** The definitions that documents do not contain, with the reason. */
const absent: Readonly<Record<string, string>> = {};

const otherKeywords: ReadonlySet<string> = new Set(['description', 'enum', 'default']);
const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, member]) => [key, sorted(member)]),
  );
};

/** Returns the structure of a schema in the form of OpenAPI v2. */
function structureOf(schema: Json): Json {
  const { allOf, oneOf, ...others } = schema;
  const [reference] = (allOf ?? []) as readonly Json[];
  const plain: Json = { ...others, ...reference, ...(oneOf !== undefined && { type: 'string' }) };
  return Object.fromEntries(
    Object.entries(plain)
      .filter(([key]) => !otherKeywords.has(key))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, value]) => {
        if (key === '$ref') return [key, String(value).replace('#/components/schemas/', '#/definitions/')];
        if (key === 'properties')
          return [
            key,
            Object.fromEntries(
              Object.entries(value as Readonly<Record<string, Json>>)
                .sort(([a], [b]) => (a < b ? -1 : 1))
                .map(([name, property]) => [name, structureOf(property)]),
            ),
          ];
        return [key, key === 'items' || key === 'additionalProperties' ? structureOf(value as Json) : sorted(value)];
      }),
  );
}
const hashOf = (schema: Json): string =>
  createHash('sha256')
    .update(JSON.stringify(structureOf(schema)))
    .digest('hex')
    .slice(0, 12);

describe('OpenAPI definitions', () => {
  it.each([2, 3] as const)('have the structure of Kubernetes 1.36 in version %i', (version) => {
    const definitions =
      version === 2
        ? partsOf(openApiParts(served, 2, 'v1.36.0'), 'definition')
        : new Map([...documents.values()].flatMap((parts) => [...partsOf(parts, 'definition')]));
    const different = Object.entries(structures)
      .filter(([name, hash]) => {
        const definition = definitions.get(name);
        return definition === undefined ? absent[name] === undefined : hashOf(definition) !== hash;
      })
      .map(([name]) => name);
    const total = Object.keys(structures).length;
    console.info(
      `OpenAPI v${version}: ${total - different.length - Object.keys(absent).length} of ${total} definitions equal in structure`,
    );
    expect(different).toEqual([]);
    expect([...definitions.keys()].filter((name) => structures[name] === undefined)).toEqual([]);
  });
});

/** Path -> `METHOD OPERATION_ID` of its operations in Kubernetes 1.36, from the facts of the API generator. */
const upstreamPaths = JSON.parse(readFileSync(new URL('./paths.json', import.meta.url), 'utf8')) as Readonly<
  Record<string, readonly string[]>
>;
/** The paths that this server does not publish, with the reason. */
const unpublishedPaths: Readonly<Record<string, string>> = {
  '/logs/': 'the API server has no log directory: its log is written to standard error',
  '/logs/{logpath}': 'as /logs/',
};
const methods: ReadonlySet<string> = new Set(['delete', 'get', 'head', 'options', 'patch', 'post', 'put']);
type Operation = Json & { readonly operationId: string };
const operationsOf = (item: Json) => Object.entries(item).filter(([method]) => methods.has(method)) as [string, Operation][];

describe('OpenAPI paths', () => {
  it.each([2, 3] as const)('have the operations of Kubernetes 1.36 in version %i', (version) => {
    const paths =
      version === 2
        ? partsOf(openApiParts(served, 2, 'v1.36.0'), 'path')
        : new Map([...documents.values()].flatMap((parts) => [...partsOf(parts, 'path')]));
    const different = Object.entries(upstreamPaths).filter(([path, operations]) => {
      const item = paths.get(path);
      if (item === undefined) return unpublishedPaths[path] === undefined;
      const own = operationsOf(item).map(([method, { operationId }]) => `${method} ${operationId}`);
      return own.sort().join() !== operations.join();
    });
    const total = Object.keys(upstreamPaths).length;
    const equal = total - different.length - Object.keys(unpublishedPaths).length;
    console.info(`OpenAPI v${version}: ${equal} of ${total} paths have equal operations`);
    expect(different).toEqual([]);
    expect([...paths.keys()].filter((path) => upstreamPaths[path] === undefined)).toEqual([]);
  });

  it('have unique operation IDs', () => {
    const ids = [...partsOf(openApiParts(served, 2, 'v1.36.0'), 'path').values()].flatMap((item) =>
      operationsOf(item).map(([, { operationId }]) => operationId),
    );
    expect(new Set(ids).size).toBe(ids.length);
  });
});
