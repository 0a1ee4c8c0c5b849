import { checkJson, conformToSchema, UnmarshalTypeError } from '../schema/conform.ts';
import { parseExact, stringifyExact } from '../json/exact-json.ts';
import { goKind, goSyntaxError } from '../json/syntax-error.ts';
import { isObject, own } from '../json/json.ts';
import { sortKeys } from '../json/sort-keys.ts';
import { parseApiVersion, type GroupVersionKind } from '../kinds.ts';
import type { KubeObject } from '../object.ts';
import { schemaOf, type Schema } from '../schema/schema.ts';
import { badRequest, isStatus, type StatusError } from '../status.ts';
import { strictDecodingErrors, unknownFields } from './strict-decoding.ts';
import { parseYaml } from './yaml.ts';

export type MediaType = 'application/json' | 'application/yaml';
/** How the server handles unknown and duplicate fields: drop them, drop them with a warning, or reject the request. */
export type FieldValidation = 'Ignore' | 'Warn' | 'Strict';

export interface DecodeOptions {
  readonly type: MediaType;
  /** The kind that the request expects. It replaces a missing kind and apiVersion in the body. */
  readonly expected: GroupVersionKind;
  /** The handling of unknown and duplicate fields; `Ignore` by default. */
  readonly fieldValidation?: FieldValidation;
  /** The schema of a kind that is not built in. A schema of type `any` accepts every value. */
  readonly schema?: Schema;
  /** True to preserve integers that a double cannot represent (`parseExact`). */
  readonly exact?: boolean;
}
export interface DecodedObject<T extends KubeObject = KubeObject> {
  readonly object: T;
  /** The texts of `Warning` headers; empty unless fieldValidation is `Warn`. */
  readonly warnings: readonly string[];
}

/**
 * Parses a body that is not an API object, such as a patch. `exact` preserves integers that a double does not hold, as YAML always does.
 * @throws StatusError BadRequest for malformed text, nesting of more than 100 and the key `__proto__`.
 */
export function parseBody(body: Uint8Array | string, type: MediaType, exact = false): unknown {
  const text = textOf(body);
  const value = type === 'application/yaml' ? parseYaml(text).value : parseJson(text, exact);
  checkJson(value);
  return value;
}

/**
 * Decodes one object: parses, checks types against the schema, drops unknown fields, converts values to canonical form.
 * The result has `kind` and `apiVersion`.
 * @throws StatusError BadRequest with Kubernetes' message.
 */
export function decodeObject<T extends KubeObject = KubeObject>(body: Uint8Array | string, options: DecodeOptions): DecodedObject<T> {
  const { type, fieldValidation = 'Ignore' } = options;
  const { value, text, duplicates } = parseObject(body, options);
  const { object, schema, handled } = conformValue(value, options);
  if (fieldValidation === 'Ignore') return { object: object as T, warnings: [] };
  const errors =
    type === 'application/json'
      ? strictDecodingErrors(text, schema)
      : [...duplicateErrors(duplicates), ...unknownFields(schema, sortKeys(value))];
  if (errors.length > 0 && fieldValidation === 'Strict') throw handled(`strict decoding error: ${errors.join(', ')}`);
  return { object: object as T, warnings: errors.flatMap(warningsOf) };
}

/** The parsed body of a request with its kind and apiVersion, before decoding. */
export interface ParsedObject {
  readonly value: Readonly<Record<string, unknown>>;
  readonly text: string;
  /** The errors for keys that YAML sets twice, from `parseYaml`. */
  readonly duplicates: readonly string[];
  /** Returns the error for a body whose kind cannot be determined. */
  readonly unrecognized: (why: string) => StatusError;
}

/**
 * Parses an object. `null` counts as an object without members.
 * @throws StatusError BadRequest with Kubernetes' message: what is wrong, and the start of the body
 */
export function parseObject(
  body: Uint8Array | string,
  { type, expected, exact = false }: Pick<DecodeOptions, 'type' | 'expected' | 'exact'>,
): ParsedObject {
  const text = textOf(body);
  const unrecognized = (why: string) =>
    badRequest(`the object provided is unrecognized (must be of type ${expected.kind}): ${why} (${summary(text)})`);
  try {
    const { value, duplicates } = type === 'application/yaml' ? parseYaml(text) : { value: parseJson(text, exact), duplicates: [] };
    if (type === 'application/yaml') checkJson(value);
    return { value: withTypeMeta(value), text, duplicates, unrecognized };
  } catch (error) {
    if (!isStatus(error, 'BadRequest')) throw error;
    throw unrecognized(error.message);
  }
}

/** Returns the value as an object. @throws StatusError BadRequest if it is not an object, or its kind or apiVersion is not a string */
export function withTypeMeta(value: unknown): Readonly<Record<string, unknown>> {
  const typeMismatch = (what: unknown, where: string) =>
    badRequest(`couldn't get version/kind; json parse error: json: cannot unmarshal ${goKind(what)} into Go ${where}`);
  if (value === null) return {};
  if (!isObject(value))
    throw typeMismatch(
      value,
      'value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }',
    );
  for (const name of ['kind', 'apiVersion']) {
    const field = own(value, name) ?? '';
    if (typeof field !== 'string') throw typeMismatch(field, `struct field .${name} of type string`);
    if (name === 'apiVersion' && field.split('/').length > 2) throw badRequest(`unexpected GroupVersion string: ${field}`);
  }
  return value;
}

/** Splits a strict decoding error into warnings: one for each key that YAML sets twice. */
export function warningsOf(error: string): readonly string[] {
  const lines = /^(?:error converting YAML to JSON: )?yaml: unmarshal errors:\n(.*)$/s.exec(error)?.[1];
  return lines === undefined ? [error] : lines.split('\n').map((line) => line.trimStart());
}

/** Joins the errors for keys that YAML sets twice into one strict decoding error. */
export const duplicateErrors = (duplicates: readonly string[]): readonly string[] =>
  duplicates.length === 0 ? [] : [`yaml: unmarshal errors:\n${duplicates.join('\n')}`];

/**
 * As `decodeObject` for a value that was parsed before, from another format than text.
 * @throws StatusError BadRequest with Kubernetes' message.
 */
export function conformObject<T extends KubeObject = KubeObject>(
  value: KubeObject,
  options: Pick<DecodeOptions, 'expected' | 'schema'>,
): T {
  return conformValue(value as object as Readonly<Record<string, unknown>>, options).object as T;
}

function conformValue(
  value: Readonly<Record<string, unknown>>,
  { expected, schema: customSchema }: Pick<DecodeOptions, 'expected' | 'schema'>,
): { readonly object: KubeObject; readonly schema: Schema; readonly handled: (why: string) => StatusError } {
  const actual = checkKind(value, expected);
  const schema = customSchema ?? schemaOf(actual);
  const handled = (why: string) =>
    badRequest(`${actual.kind} in version ${JSON.stringify(actual.version)} cannot be handled as a ${expected.kind}: ${why}`);
  if (schema === undefined)
    throw handled(
      `no kind ${JSON.stringify(actual.kind)} is registered for version ${JSON.stringify(versionOf(actual))} in scheme "pkg/api/legacyscheme/scheme.go:30"`,
    );
  let object: KubeObject;
  try {
    object = conformToSchema(schema, value);
  } catch (error) {
    if (error instanceof UnmarshalTypeError) throw handled(error.message);
    throw error;
  }
  if (object.kind !== actual.kind || object.apiVersion === undefined || object.apiVersion === '') {
    object = { ...object, kind: actual.kind, apiVersion: versionOf(actual) };
  }
  return { object, schema, handled };
}

const versionOf = ({ group, version }: GroupVersionKind) => (group === '' ? version : `${group}/${version}`);

/** Versions that are accepted in bodies although they are no longer served, with the version that replaces them. The body keeps its own version. */
const acceptedVersions: ReadonlyMap<string, string> = new Map([['policy/v1beta1 Eviction', 'v1']]);

/** Versions without a schema here that upstream still knows (registers in its scheme) although no API server serves them. */
const unservedVersions: ReadonlyMap<string, readonly string[]> = new Map([
  ['apps', ['v1beta1', 'v1beta2']],
  ['authentication.k8s.io', ['v1beta1']],
  ['authorization.k8s.io', ['v1beta1']],
  ['autoscaling', ['v2beta1', 'v2beta2']],
  ['batch', ['v1beta1']],
  ['certificates.k8s.io', ['v1beta1']],
  ['coordination.k8s.io', ['v1beta1']],
  ['discovery.k8s.io', ['v1beta1']],
  ['events.k8s.io', ['v1beta1']],
  ['flowcontrol.apiserver.k8s.io', ['v1beta1', 'v1beta2', 'v1beta3']],
  ['networking.k8s.io', ['v1beta1']],
  ['node.k8s.io', ['v1alpha1', 'v1beta1']],
  ['policy', ['v1beta1']],
  ['rbac.authorization.k8s.io', ['v1alpha1', 'v1beta1']],
  ['scheduling.k8s.io', ['v1alpha1', 'v1beta1']],
  ['storage.k8s.io', ['v1alpha1', 'v1beta1']],
]);

function checkKind(value: Readonly<Record<string, unknown>>, expected: GroupVersionKind): GroupVersionKind {
  const { kind: ownKind, apiVersion } = typeMetaOf(value);
  const kind = ownKind || expected.kind;
  const { group, version } = apiVersion === '' ? expected : parseApiVersion(apiVersion);
  const actual = { group, version, kind };
  if (kind !== expected.kind || group !== expected.group) {
    if (schemaOf(actual) === undefined) return actual;
    throw unknownConversion(actual, expected);
  }
  if (version !== expected.version) {
    if (acceptedVersions.get(`${group}/${version} ${kind}`) === expected.version) return expected;
    if (schemaOf(actual) === undefined && unservedVersions.get(group)?.includes(version) !== true) return actual;
    throw badRequest(`the API version in the data (${versionOf(actual)}) does not match the expected API version (${versionOf(expected)})`);
  }
  return actual;
}

/** Returns the error for a body of another kind. The target is an internal type, whose Go package has the first part of the group's name. */
export function unknownConversion({ version, kind }: GroupVersionKind, expected: GroupVersionKind): StatusError {
  const target = `${(expected.group || 'core').split('.', 1)[0]}.${expected.kind}`;
  return badRequest(
    `${kind} in version ${JSON.stringify(version)} cannot be handled as a ${expected.kind}: converting (${version}.${kind}) to (${target}): unknown conversion`,
  );
}

function typeMetaOf(value: Readonly<Record<string, unknown>>): { readonly kind: string; readonly apiVersion: string } {
  const text = (name: string) => {
    const field = own(value, name);
    return typeof field === 'string' ? field : '';
  };
  return { kind: text('kind'), apiVersion: text('apiVersion') };
}

function textOf(body: Uint8Array | string): string {
  return typeof body === 'string' ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8');
}

/** Matches `__proto__`, possibly with escaped underscores. */
const dangerous = /__proto__|\\u005[fF]/;

function parseJson(text: string, exact: boolean): unknown {
  let value: unknown;
  try {
    value = exact ? parseExact(text) : JSON.parse(text);
  } catch (error) {
    throw badRequest(`couldn't get version/kind; json parse error: ${goSyntaxError(text) ?? String(error)}`);
  }
  if (dangerous.test(text)) checkJson(value);
  return value;
}

/** Returns the first 30 bytes of a body, in hex unless it looks like JSON, for error messages. */
function summary(text: string): string {
  if (text === '') return '<empty>';
  const bytes = Buffer.from(text.slice(0, 31));
  const head = bytes.subarray(0, 30);
  return `${head.toString(text.startsWith('{') ? 'utf8' : 'hex')}${bytes.length > 30 ? ' ...' : ''}`;
}

/** Serializes an object as Kubernetes does: `kind`, `apiVersion` and `metadata` first; undefined properties omitted. */
export function encodeObject(object: object): string {
  const { kind, apiVersion, metadata, ...rest } = object as {
    readonly kind?: unknown;
    readonly apiVersion?: unknown;
    readonly metadata?: unknown;
  };
  return stringifyExact({ kind, apiVersion, metadata, ...rest });
}
