import { conformToSchema, UnmarshalTypeError } from '@oarlock/api/schema/conform';
import { goKind } from '@oarlock/api/json/syntax-error';
import { isObject } from '@oarlock/api/json/json';
import { parseApiVersion, type GroupVersionKind, type Kind } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import {
  decodeObject,
  duplicateErrors,
  parseBody,
  conformObject,
  withTypeMeta,
  type MediaType,
  type FieldValidation,
} from '@oarlock/api/serializer/serializer';
import { schemaOf, type Schema } from '@oarlock/api/schema/schema';
import { badRequest, failure, isStatus, type StatusError } from '@oarlock/api/status';
import { anyFields, jsonDuplicates, strictDecodingErrors } from '@oarlock/api/serializer/strict-decoding';
import { parseYaml } from '@oarlock/api/serializer/yaml';
import type { PatchType } from '@oarlock/spi/client';
import { markConforming } from '../endpoints/request/body.ts';
import { recordPatchErrors } from '../endpoints/request/patch-errors.ts';
import { decodeCustomObject } from '../custom-resources/custom-object-decoding.ts';
import { publishedSchemaOf } from '../custom-resources/published-kind.ts';
import { recordFloatLiterals } from '../custom-resources/float-literals.ts';
import { checkValueCount } from '../endpoints/request/body-values.ts';
import { queryOptions } from './internal/query-options.ts';
import type { Query } from './path.ts';
import type { Route } from './routes.ts';
import { mediaTypeOf, protobufType } from '../endpoints/negotiation/negotiation.ts';
import { groupsPreservingNumbers } from '../registry/served-kind.ts';

/** The maximum size of a request body in bytes, as upstream. */
export const maxBodyBytes = 3 * 1024 * 1024;

const bodyTypes: ReadonlyMap<string, MediaType> = new Map([
  ['', 'application/json'],
  ['application/json', 'application/json'],
  ['application/yaml', 'application/yaml'],
]);
const patchTypes: Readonly<Record<string, PatchType>> = {
  'application/json-patch+json': 'json',
  'application/merge-patch+json': 'merge',
  'application/strategic-merge-patch+json': 'strategic',
  'application/apply-patch+yaml': 'apply',
};
const { 'application/strategic-merge-patch+json': _strategic, ...customPatchTypes } = patchTypes;

const unsupported = (accepted: readonly string[]): StatusError =>
  failure(
    'UnsupportedMediaType',
    `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`,
  );

/** Returns the media type of a request body that is not a patch. @throws StatusError `UnsupportedMediaType` if the content type is not supported */
export function requestBodyType(contentType: string | undefined): MediaType {
  const type = bodyTypes.get(mediaTypeOf(contentType));
  if (type === undefined) throw unsupported(['application/json', 'application/yaml', protobufType]);
  return type;
}

/**
 * Returns the patch type of a content type. Strategic merge patch is not supported for custom resources, because they have no Go types.
 * @throws StatusError `UnsupportedMediaType` if the patch type is not supported
 */
export function requestPatchType(contentType: string | undefined, kind: Kind): PatchType {
  const type = mediaTypeOf(contentType);
  const accepted = publishedSchemaOf(kind) === undefined ? patchTypes : customPatchTypes;
  if (!Object.hasOwn(accepted, type)) throw unsupported(Object.keys(accepted));
  return accepted[type] as PatchType;
}

const anyMap = 'map[string]interface {}';
/** The prefix of upstream's error messages for bodies that are not patches. */
const jsonFault = "couldn't get version/kind; json parse error: ";

export interface RequestBodyContext {
  readonly route: Route;
  readonly query: Query;
  readonly contentType: string | undefined;
  /** The protobuf decoder, for a protobuf body. The decoder has large tables and is loaded on first use. */
  readonly protobuf: ((bytes: Buffer) => KubeObject) | undefined;
  /** Called for unknown and duplicate fields of an object if `fieldValidation` is Warn, the default. Those of a patch are recorded. */
  warn(message: string): void;
}

/**
 * Decodes a request body: an object of the expected kind, a patch, or options. DeleteOptions may be in the query instead.
 * @throws StatusError `BadRequest` if the body is malformed; `UnsupportedMediaType`; `RequestEntityTooLarge` if it has too many values
 */
export function decodeRequestBody(bytes: Buffer, { route, query, contentType, protobuf, warn }: RequestBodyContext): unknown {
  const { verb, kind, subresource, optionsKind } = route;
  if (optionsKind !== undefined) return queryOptions(optionsKind, query);
  if (protobuf === undefined) checkValueCount(bytes);
  if (verb === 'patch') {
    const type = requestPatchType(contentType, kind);
    const mediaType = type === 'apply' ? toJsonBytes(bytes, 'application/yaml') : 'application/json';
    const patch = parsePatch(bytes, {
      type,
      mediaType,
      exact: publishedSchemaOf(kind) !== undefined || groupsPreservingNumbers.has(kind.group),
    });
    if (query.first['fieldValidation'] !== 'Ignore') recordPatchErrors(patch, patchErrors(bytes, type, mediaType));
    if (type === 'merge' && publishedSchemaOf(kind) !== undefined) recordFloatLiterals(patch, bytes.toString('utf8'));
    return patch;
  }
  const sent = bytes.length === 0 ? undefined : protobuf?.(bytes);
  if (verb === 'delete' || verb === 'deletecollection') {
    if (sent !== undefined) return conformObject(sent, { expected: deletionOf(sent.apiVersion) });
    return bytes.length === 0 ? undefined : deleteOptions(bytes, requestBodyType(contentType));
  }
  const expected: GroupVersionKind = subresource ?? kind;
  if (sent !== undefined) return markConforming(conformObject(sent, { expected }), schemaOf(expected));
  const type = toJsonBytes(bytes, requestBodyType(contentType));
  const fieldValidation = (query.first['fieldValidation'] || 'Warn') as FieldValidation;
  const published = expected.kind === kind.kind ? publishedSchemaOf(kind) : undefined;
  const { object, warnings } =
    published === undefined
      ? decodeObject(bytes, { type, expected, fieldValidation, exact: groupsPreservingNumbers.has(expected.group) })
      : decodeCustomObject(bytes, { type, expected, fields: () => published.fields, fieldValidation });
  for (const warning of warnings) warn(warning);
  return published === undefined ? markConforming(object, schemaOf(expected)) : object;
}

/** The type to which each kind of patch is decoded, and the prefixes of upstream's error messages. */
const patchForms: Readonly<
  Record<PatchType, { readonly list: boolean; readonly into: string; readonly fault: string; readonly mismatch: string }>
> = {
  json: { list: true, into: '[]handlers.jsonPatchOp', fault: 'error decoding patch: ', mismatch: 'error decoding patch: ' },
  merge: { list: false, into: anyMap, fault: 'error decoding patch: ', mismatch: 'error decoding patch: ' },
  strategic: { list: false, into: anyMap, fault: '', mismatch: '' },
  apply: {
    list: false,
    into: anyMap,
    fault: 'error decoding YAML: error converting YAML to JSON: ',
    mismatch: 'error decoding YAML: error unmarshaling JSON: while decoding JSON: ',
  },
};

/**
 * Parses a patch. `exact` keeps integers that a double cannot represent, for kinds without Go types.
 * @throws StatusError `BadRequest` if the patch is malformed
 */
function parsePatch(
  bytes: Buffer,
  { type, mediaType, exact }: { readonly type: PatchType; readonly mediaType: MediaType; readonly exact: boolean },
): unknown {
  const { list, into, fault, mismatch } = patchForms[type];
  let patch: unknown;
  try {
    patch = parseBody(bytes, mediaType, exact);
  } catch (error) {
    throw isStatus(error, 'BadRequest') ? badRequest(fault + error.message.replace(jsonFault, '')) : error;
  }
  if (patch === null) {
    // no change, except that upstream's library for merge patches requires an object
    if (type === 'merge') throw badRequest('Invalid JSON Patch');
    return list ? [] : {};
  }
  if (list ? !Array.isArray(patch) : !isObject(patch))
    throw badRequest(`${mismatch}json: cannot unmarshal ${goKind(patch)} into Go value of type ${into}`);
  return patch;
}

/** The fields of a JSON patch. */
const jsonPatchFields: Schema = {
  type: 'array',
  items: { type: 'object', properties: new Map(['op', 'path', 'from', 'value'].map((name) => [name, anyFields])) },
};

/** Returns the strict decoding errors in the text of a patch: duplicate fields, and unknown fields of JSON patch operations. */
function patchErrors(bytes: Buffer, type: PatchType, mediaType: MediaType): readonly string[] {
  const text = bytes.toString('utf8');
  if (type === 'json') return strictDecodingErrors(text, jsonPatchFields).map((error) => `json patch ${error}`);
  if (type !== 'apply') return strictDecodingErrors(text, anyFields);
  const duplicates = mediaType === 'application/yaml' ? parseYaml(text).duplicates : jsonDuplicates(text);
  return duplicateErrors(duplicates).map((error) => `error converting YAML to JSON: ${error}`);
}

/** Returns the media type JSON for a body that is declared as YAML but contains JSON, because the JSON parser is a thousand times faster. */
function toJsonBytes(bytes: Buffer, type: MediaType): MediaType {
  return type === 'application/yaml' && bytes[0] === 0x7b && isJson(bytes) ? 'application/json' : type;
}

function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString('utf8'));
    return true;
  } catch {
    return false; // flow YAML also begins with a brace
  }
}

/** Decodes DeleteOptions. Clients may send DeleteOptions with the apiVersion of the deleted object. */
function deleteOptions(bytes: Buffer, type: MediaType): unknown {
  const value = withTypeMeta(parseBody(bytes, type));
  const { kind = '', apiVersion = '' } = value as KubeObject;
  if (kind !== '' && kind !== 'DeleteOptions')
    throw badRequest(
      `no kind ${JSON.stringify(kind)} is registered for version ${JSON.stringify(apiVersion)} in scheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"`,
    );
  try {
    return { ...conformToSchema(deletion, value), kind: 'DeleteOptions', apiVersion: apiVersion || 'v1' };
  } catch (error) {
    throw error instanceof UnmarshalTypeError ? badRequest(error.message) : error;
  }
}
const deletion = schemaOf({ group: '', version: 'v1', kind: 'DeleteOptions' }) as Schema;

/** Returns the expected kind of DeleteOptions in protobuf. */
function deletionOf(apiVersion: unknown): GroupVersionKind {
  return { ...parseApiVersion(typeof apiVersion === 'string' && apiVersion !== '' ? apiVersion : 'v1'), kind: 'DeleteOptions' };
}
