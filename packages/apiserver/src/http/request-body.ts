import { conformToSchema, UnmarshalTypeError } from '@oarlock/api/schema/conform';
import { invalid } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { goKind } from '@oarlock/api/json/syntax-error';
import { isObject } from '@oarlock/api/json/json';
import { parseApiVersion, type GroupVersionKind, type Kind } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import {
  decodeObject,
  duplicateErrors,
  parseBody,
  conformObject,
  warningsOf,
  withTypeMeta,
  type MediaType,
  type FieldValidation,
} from '@oarlock/api/serializer/serializer';
import { schemaOf, type Schema } from '@oarlock/api/schema/schema';
import { badRequest, failure, isStatus, type StatusError } from '@oarlock/api/status';
import { strictDecodingErrors } from '@oarlock/api/serializer/strict-decoding';
import { parseYaml } from '@oarlock/api/serializer/yaml';
import type { PatchType } from '@oarlock/spi/client';
import { markConforming } from '../request/body.ts';
import { decodeCustomObject } from '../custom-resources/custom-object-decoding.ts';
import { publishedSchemaOf } from '../custom-resources/published-kind.ts';
import { recordFloatLiterals } from '../custom-resources/float-literals.ts';
import { queryOptions } from './internal/query-options.ts';
import type { Query } from './path.ts';
import type { Route } from './routes.ts';
import { mediaTypeOf, protobufType } from '../negotiation/negotiation.ts';
import { groupsPreservingNumbers } from '../registry/served-kind.ts';

/** The largest body that is read, in bytes: upstream's limit. */
export const maxBodyBytes = 3 * 1024 * 1024;

const bodyTypes: Readonly<Record<string, MediaType>> = {
  '': 'application/json',
  'application/json': 'application/json',
  'application/yaml': 'application/yaml',
};
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

/** @throws StatusError `UnsupportedMediaType` */
export function requestBodyType(contentType: string | undefined): MediaType {
  const type = mediaTypeOf(contentType);
  if (!Object.hasOwn(bodyTypes, type)) throw unsupported(['application/json', 'application/yaml', protobufType]);
  return bodyTypes[type] as MediaType;
}

/** Kinds that definitions make have no types of their own, by which lists could be merged. @throws StatusError `UnsupportedMediaType` */
export function requestPatchType(contentType: string | undefined, kind: Kind): PatchType {
  const type = mediaTypeOf(contentType);
  const accepted = publishedSchemaOf(kind) === undefined ? patchTypes : customPatchTypes;
  if (!Object.hasOwn(accepted, type)) throw unsupported(Object.keys(accepted));
  return accepted[type] as PatchType;
}

const anyMap = 'map[string]interface {}';
/** What objects are told of besides, and patches are not. */
const jsonFault = "couldn't get version/kind; json parse error: ";

export interface RequestBodyContext {
  readonly route: Route;
  readonly query: Query;
  readonly contentType: string | undefined;
  /** Given where the body is protobuf: its tables are large and not loaded before they are needed. */
  readonly protobuf: ((bytes: Buffer) => KubeObject) | undefined;
  /** Told of unknown and duplicate fields under `fieldValidation=Warn`, the default. */
  warn(message: string): void;
}

/**
 * What a body means to its request: an object of the expected kind, a patch, or options. Those of deletions may be in the query instead.
 * @throws StatusError `BadRequest`, `UnsupportedMediaType`
 */
export function decodeRequestBody(bytes: Buffer, { route, query, contentType, protobuf, warn }: RequestBodyContext): unknown {
  const { verb, kind, subresource, optionsKind } = route;
  if (optionsKind !== undefined) return queryOptions(optionsKind, query);
  if (verb === 'patch') {
    const type = requestPatchType(contentType, kind);
    const patch = parsePatch(bytes, type, publishedSchemaOf(kind) !== undefined || groupsPreservingNumbers.has(kind.group));
    checkDuplicates(bytes, type, query, warn);
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

/** What each kind of patch is decoded into, and how faults of that are told. */
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
 * `exact`: with integers that a double does not hold, for kinds that have no types of their own.
 * @throws StatusError `BadRequest`
 */
function parsePatch(bytes: Buffer, type: PatchType, exact: boolean): unknown {
  const { list, into, fault, mismatch } = patchForms[type];
  let patch: unknown;
  try {
    patch = parseBody(bytes, type === 'apply' ? toJsonBytes(bytes, 'application/yaml') : 'application/json', exact);
  } catch (error) {
    throw isStatus(error, 'BadRequest') ? badRequest(fault + error.message.replace(jsonFault, '')) : error;
  }
  if (patch === null) {
    // nothing is to be changed, but for merging, which upstream's library wants an object for
    if (type === 'merge') throw badRequest('Invalid JSON Patch');
    return list ? [] : {};
  }
  if (list ? !Array.isArray(patch) : !isObject(patch))
    throw badRequest(`${mismatch}json: cannot unmarshal ${goKind(patch)} into Go value of type ${into}`);
  return patch;
}

/** Any JSON, of which the keys are looked at. */
const anyFields: Schema = {
  type: 'object',
  get additionalProperties() {
    return anyFields;
  },
  get items() {
    return anyFields;
  },
};

/** Keys that a patch has twice: parsing keeps the last alone. @throws StatusError `BadRequest`, `Invalid` under `fieldValidation=Strict` */
function checkDuplicates(bytes: Buffer, type: PatchType, query: Query, warn: (message: string) => void): void {
  const validation = query.first['fieldValidation'] || 'Warn';
  if (validation === 'Ignore') return;
  const text = bytes.toString('utf8');
  let duplicates: readonly string[];
  if (type === 'apply' && toJsonBytes(bytes, 'application/yaml') === 'application/yaml') {
    duplicates = duplicateErrors(parseYaml(text).duplicates).map((error) => `error converting YAML to JSON: ${error}`);
  } else duplicates = strictDecodingErrors(text, anyFields);
  if (duplicates.length === 0) return;
  if (validation === 'Strict') {
    if (type === 'apply') throw badRequest(`error strict decoding YAML: ${duplicates.join(', ')}`);
    throw invalidStatus({ group: '', kind: '', name: '' }, [invalid('patch', text, `strict decoding error: ${duplicates.join(', ')}`)]);
  }
  for (const warning of duplicates.flatMap(warningsOf)) warn(warning);
}

/** Clients name their JSON YAML; as JSON it is read a thousand times faster. */
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

/** Clients send DeleteOptions under the API version of whatever they delete. What is wrong with them is told as it is found. */
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

/** The version that a deletion names, in other encodings than text. */
function deletionOf(apiVersion: unknown): GroupVersionKind {
  return { ...parseApiVersion(typeof apiVersion === 'string' && apiVersion !== '' ? apiVersion : 'v1'), kind: 'DeleteOptions' };
}
