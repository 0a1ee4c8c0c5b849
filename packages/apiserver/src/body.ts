import { checkJson, conform, TypeMismatch } from '@oarlock/api/conform';
import { isObject } from '@oarlock/api/json';
import { parseApiVersion, type GroupVersionKind } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf } from '@oarlock/api/resource';
import type { Schema } from '@oarlock/api/schema';
import { badRequest, failure, isStatus, StatusError } from '@oarlock/api/status';
import { checkTypeMeta } from './type-meta.ts';

/** Besides the kind itself, what its bodies may say they are. */
export interface BodyOptions {
  readonly gvk: GroupVersionKind;
  readonly schema: Schema | undefined;
}

/**
 * The body of a request as an object of a kind: of that kind and version, of the right types, without what the schema does not know.
 * @param known of the same kind and conforming: what the body has of its parts is not looked at again
 * @throws StatusError BadRequest with the message that Kubernetes gives
 */
export function decodeBody<T extends KubeObject = KubeObject>(body: unknown, { gvk, schema }: BodyOptions, known?: KubeObject): T {
  if (!isObject(body)) throw badRequest(`the object provided is unrecognized (must be of type ${gvk.kind}): couldn't get version/kind`);
  const apiVersion = apiVersionOf(gvk);
  const kind = named(body, 'kind') || gvk.kind;
  const given = named(body, 'apiVersion') || apiVersion;
  if (kind !== gvk.kind || given !== apiVersion) {
    if (schema === undefined) checkTypeMeta({ ...body, kind, apiVersion: given }, gvk);
    throw wrongKind(kind, given, gvk);
  }
  const object = body as unknown as T;
  const whole = schema !== undefined && known !== undefined ? conformedBeside(object, known, { gvk, schema }) : undefined;
  return { ...(whole ?? conformed<T>(object, { gvk, schema })), kind: gvk.kind, apiVersion };
}

function named(body: Readonly<Record<string, unknown>>, name: 'kind' | 'apiVersion'): string {
  const value = body[name] ?? '';
  if (typeof value === 'string') return value;
  throw badRequest(
    `couldn't get version/kind; json parse error: json: cannot unmarshal ${Array.isArray(value) ? 'array' : typeof value} into Go struct field .${name} of type string`,
  );
}

/** What has been made conform already, and to what. */
const conforming = new WeakMap<object, Schema>();

/** The value, of which `conformed` need not be asked again: decoding has made it what the schema says. */
export function withConformity<T extends object>(value: T, schema: Schema | undefined): T {
  if (schema !== undefined) conforming.set(value, schema);
  return value;
}

/** The object, of which only what `known` does not share was made conform; undefined when they share nothing. @throws StatusError BadRequest */
function conformedBeside<T extends KubeObject>(object: T, known: KubeObject, options: BodyOptions): T | undefined {
  const [given, old] = [object, known] as unknown as readonly Readonly<Record<string, unknown>>[];
  let shared: Record<string, unknown> | undefined;
  const rest: Record<string, unknown> = {};
  for (const name in given) {
    const part = given[name];
    // frozen, or somebody may have changed it since
    if (typeof part === 'object' && part !== null && part === old?.[name] && Object.isFrozen(part)) (shared ??= {})[name] = part;
    else rest[name] = part;
  }
  return shared && ({ ...conformed(rest, options), ...shared } as unknown as T);
}

/** @throws StatusError BadRequest */
export function conformed<T extends object>(value: T, { gvk, schema }: BodyOptions): T {
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
  if (conforming.get(value) === schema) return value;
  try {
    return conform(schema, value);
  } catch (error) {
    if (error instanceof TypeMismatch)
      throw badRequest(`${gvk.kind} in version ${JSON.stringify(gvk.version)} cannot be handled as a ${gvk.kind}: ${error.message}`);
    throw error;
  }
}

/**
 * What admission made of an object, as if it had come as a body: what Go leaves out when it is empty is left out, whoever wrote it.
 * @throws StatusError InternalError: no client has to do with it
 */
export function conformedAnswer<T extends KubeObject>(answer: T, before: KubeObject, { gvk, schema }: BodyOptions): T {
  if (answer === before || schema === undefined) return answer;
  try {
    return conformedBeside(answer, before, { gvk, schema }) ?? conformed(answer, { gvk, schema });
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
  if (kind !== expected.kind || group !== expected.group) {
    return badRequest(
      `${kind} in version ${JSON.stringify(version)} cannot be handled as a ${expected.kind}: converting (${version}.${kind}) to (${expected.version}.${expected.kind}): unknown conversion`,
    );
  }
  return badRequest(`the API version in the data (${apiVersion}) does not match the expected API version (${apiVersionOf(expected)})`);
}

/** A value that nobody else can change: what is frozen is shared, the rest is copied. */
export function owned<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  if (Array.isArray(value)) return value.map(owned) as T;
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    const member = owned((value as Record<string, unknown>)[key]);
    if (key === '__proto__') throw badRequest('the key "__proto__" is not supported');
    if (member !== undefined) copy[key] = member;
  }
  return copy as T;
}
