import { kinds } from '@oarlock/api/kinds';
import { openApiParts, unversionedDocuments, unversionedParts, type OpenApiPart } from '../../src/endpoints/openapi/openapi-document.ts';

/** Returns the paths or the definitions of a document by name. */
export const partsOf = (parts: Iterable<OpenApiPart>, kind: 'path' | 'definition') =>
  new Map([...parts].flatMap((part) => (part.kind === kind ? [[part.name, part.value] as const] : [])));
/** All kinds of the API, also those that a server with default flags does not serve. */
export const served = kinds;
const groupVersions = [...new Set(served.map(({ group, version }) => `${group}/${version}`))];
/** Returns the kinds of a group and version such as `apps/v1`. */
export const kindsOf = (groupVersion: string) => served.filter(({ group, version }) => `${group}/${version}` === groupVersion);
/** The parts of all OpenAPI v3 documents, by the path of the document. */
export const documents = new Map<string, readonly OpenApiPart[]>([
  ...groupVersions.map((name) => [name, [...openApiParts(kindsOf(name), 3, 'v1.36.0')]] as const),
  ...unversionedDocuments(served).map((name) => [name, [...unversionedParts(name, 'v1.36.0')]] as const),
]);
