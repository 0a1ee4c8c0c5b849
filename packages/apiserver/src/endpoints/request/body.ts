import { copyFields } from '@oarlock/api/json/copy-fields';
import { checkJson, conformToSchema as convertBySchema, conformUnstructured, UnmarshalTypeError } from '@oarlock/api/schema/conform';
import { isObject } from '@oarlock/api/json/json';
import { parseApiVersion, type GroupVersionKind } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf } from '@oarlock/api/resource';
import type { Schema } from '@oarlock/api/schema/schema';
import { unknownConversion } from '@oarlock/api/serializer/serializer';
import { badRequest, failure, isStatus, StatusError } from '@oarlock/api/status';
import { checkTypeMeta } from './type-meta.ts';

/** The kind that a body must have, and the schema of the kind. */
export interface BodyOptions {
  readonly gvk: GroupVersionKind;
  readonly schema: Schema | undefined;
}

/**
 * Decodes a request body into an object of the expected kind: validates kind and apiVersion, converts types, and drops unknown fields.
 * @param known an object that conforms to the schema; parts of the body that are identical to parts of this object are not checked again
 * @throws StatusError BadRequest with upstream's message if the body does not conform
 */
export function decodeBody<T extends KubeObject = KubeObject>(body: unknown, { gvk, schema }: BodyOptions, known?: KubeObject): T {
  const apiVersion = requireKind(body, { gvk, schema });
  return copyFields(conformToSchema<T>(body as unknown as T, { gvk, schema }, known), { kind: gvk.kind, apiVersion });
}

/** The object that was patched, of which the result shares what the patch did not change, and whether the patch was a strategic merge patch. */
export interface PatchedFrom {
  readonly old: KubeObject;
  readonly isStrategic: boolean;
}

/**
 * Decodes the result of a patch: of a strategic merge patch as apimachinery's unstructured converter does, of others as JSON.
 * @throws UnmarshalTypeError, StatusError BadRequest if the result does not conform
 */
export function decodePatched(patched: unknown, { gvk, schema }: BodyOptions, { old, isStrategic }: PatchedFrom): KubeObject {
  const apiVersion = requireKind(patched, { gvk, schema });
  const decode = isStrategic ? conformUnstructured : convertBySchema;
  const object =
    schema === undefined ? conformToSchema(patched as KubeObject, { gvk, schema }) : decode(schema, patched as KubeObject, old);
  return copyFields(object, { kind: gvk.kind, apiVersion });
}

/** Returns the apiVersion of the kind. @throws StatusError BadRequest if the body is of another kind or version */
function requireKind(body: unknown, { gvk, schema }: BodyOptions): string {
  if (!isObject(body)) throw badRequest(`the object provided is unrecognized (must be of type ${gvk.kind}): couldn't get version/kind`);
  const apiVersion = apiVersionOf(gvk);
  const kind = stringMember(body, 'kind') || gvk.kind;
  const bodyVersion = stringMember(body, 'apiVersion') || apiVersion;
  if (kind === gvk.kind && bodyVersion === apiVersion) return apiVersion;
  if (schema === undefined) checkTypeMeta({ ...body, kind, apiVersion: bodyVersion }, gvk);
  throw wrongKind(kind, bodyVersion, gvk);
}

function stringMember(body: Readonly<Record<string, unknown>>, name: 'kind' | 'apiVersion'): string {
  const value = body[name] ?? '';
  if (typeof value === 'string') return value;
  throw badRequest(
    `couldn't get version/kind; json parse error: json: cannot unmarshal ${Array.isArray(value) ? 'array' : typeof value} into Go struct field .${name} of type string`,
  );
}

/** The objects that are known to conform to a schema, with the schema. */
const conformingSchemas = new WeakMap<object, Schema>();

/** Marks a decoded value as conforming, so that `conformToSchema` returns it without checks. */
export function markConforming<T extends object>(value: T, schema: Schema | undefined): T {
  if (schema !== undefined) conformingSchemas.set(value, schema);
  return value;
}

/**
 * Returns the value with the types of a schema and without unknown fields.
 * @param known an object that conforms to the schema; frozen parts of the value that are also parts of this object are not checked again
 * @throws StatusError BadRequest if the value cannot be converted
 */
export function conformToSchema<T extends object>(value: T, { gvk, schema }: BodyOptions, known?: KubeObject): T {
  if (schema === undefined) {
    checkJson(value);
    const { metadata } = value as { readonly metadata?: unknown };
    if (metadata !== undefined && metadata !== null && !isObject(metadata)) {
      const type = Array.isArray(metadata) ? 'array' : typeof metadata;
      throw badRequest(
        `${gvk.kind} in version ${JSON.stringify(gvk.version)} cannot be handled as a ${gvk.kind}: json: cannot unmarshal ${type} into Go struct field .metadata of type v1.ObjectMeta`,
      );
    }
    return value;
  }
  if (conformingSchemas.get(value) === schema) return value;
  try {
    return convertBySchema(schema, value, known);
  } catch (error) {
    if (error instanceof UnmarshalTypeError)
      throw badRequest(`${gvk.kind} in version ${JSON.stringify(gvk.version)} cannot be handled as a ${gvk.kind}: ${error.message}`);
    throw error;
  }
}

/**
 * Returns the result of mutating admission, conformed to the schema like a request body: fields that Go omits when empty are omitted.
 * @throws StatusError InternalError if the result does not conform, because the client did not cause the error
 */
export function conformAdmitted<T extends KubeObject>(answer: T, before: KubeObject, { gvk, schema }: BodyOptions): T {
  if (answer === before || schema === undefined) return answer;
  try {
    return conformToSchema(answer, { gvk, schema }, before);
  } catch (error) {
    if (!isStatus(error, 'BadRequest')) throw error;
    const message = `admission made something else of an object: ${error.message}`;
    throw new StatusError(failure('InternalError', `Internal error occurred: ${message}`, { causes: [{ message }] }).status, {
      cause: error,
    });
  }
}

function wrongKind(kind: string, apiVersion: string, expected: GroupVersionKind) {
  const { group, version } = parseApiVersion(apiVersion);
  if (kind !== expected.kind || group !== expected.group) return unknownConversion({ group, version, kind }, expected);
  return badRequest(`the API version in the data (${apiVersion}) does not match the expected API version (${apiVersionOf(expected)})`);
}

/** Returns a deep copy of a value; frozen parts are shared. */
export function copyUnlessFrozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  if (Array.isArray(value)) return value.map(copyUnlessFrozen) as T;
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    const member = copyUnlessFrozen((value as Record<string, unknown>)[key]);
    if (key === '__proto__') throw badRequest('the key "__proto__" is not supported');
    if (member !== undefined) copy[key] = member;
  }
  return copy as T;
}
