import { checkJson, conform, TypeMismatch } from './conform.ts';
import { parseExact, stringifyExact } from './exact-json.ts';
import { goKind, goSyntaxError } from './json-fault.ts';
import { isObject, own } from './json.ts';
import { parseApiVersion, type GroupVersionKind } from './kinds.ts';
import type { KubeObject } from './object.ts';
import { schemaOf, type Schema } from './schema.ts';
import { badRequest, isStatus, type StatusError } from './status.ts';
import { strictErrors, unknownFields } from './strict-fields.ts';
import { parseYaml } from './yaml-body.ts';

export type BodyType = 'application/json' | 'application/yaml';
/** What a server does with unknown and duplicate fields: drop them, drop them and warn, refuse. */
export type FieldValidation = 'Ignore' | 'Warn' | 'Strict';

export interface DecodeOptions {
  readonly type: BodyType;
  /** The kind that the request is about; fills in a kind and apiVersion that the body lacks. */
  readonly expected: GroupVersionKind;
  /** `Ignore` unless given. */
  readonly fieldValidation?: FieldValidation;
  /** For kinds that have no built-in schema. A schema of type `any` takes everything. */
  readonly schema?: Schema;
  /** Integers that a double does not hold stay what they are (`parseExact`). */
  readonly exact?: boolean;
}
export interface Decoded<T extends KubeObject = KubeObject> {
  readonly object: T;
  /** For `Warning` headers; empty unless fieldValidation is `Warn`. */
  readonly warnings: readonly string[];
}

/**
 * Parses a body that is no API object, such as a patch. `exact`: integers that a double does not hold stay what they are; those of YAML always do.
 * @throws StatusError BadRequest for malformed text, nesting over 100 and the key `__proto__`.
 */
export function parseBody(body: Uint8Array | string, type: BodyType, exact = false): unknown {
  const text = textOf(body);
  const value = type === 'application/yaml' ? parseYaml(text).value : parseJson(text, exact);
  checkJson(value);
  return value;
}

/**
 * Decodes one object: parses, checks types against the schema, drops what the schema does not know, takes canonical forms.
 * `kind` and `apiVersion` are set in the result.
 * @throws StatusError BadRequest with the message that Kubernetes gives.
 */
export function decodeObject<T extends KubeObject = KubeObject>(body: Uint8Array | string, options: DecodeOptions): Decoded<T> {
  const { type, fieldValidation = 'Ignore' } = options;
  const { value, text, duplicates } = parseObject(body, options);
  const { object, schema, handled } = shaped(value, options);
  if (fieldValidation === 'Ignore') return { object: object as T, warnings: [] };
  const errors =
    type === 'application/json' ? strictErrors(text, schema) : [...duplicateErrors(duplicates), ...unknownFields(schema, value)];
  if (errors.length > 0 && fieldValidation === 'Strict') throw handled(`strict decoding error: ${errors.join(', ')}`);
  return { object: object as T, warnings: errors.flatMap(warningsOf) };
}

/** The body of a request that says what it is, as it was sent. */
export interface ParsedObject {
  readonly value: Readonly<Record<string, unknown>>;
  readonly text: string;
  /** Keys that YAML sets twice, as `parseYaml` tells of them. */
  readonly duplicates: readonly string[];
  /** The refusal of a body that cannot be told what it is. */
  readonly unrecognized: (why: string) => StatusError;
}

/**
 * Parses an object. What is `null` has no members.
 * @throws StatusError BadRequest with the message that Kubernetes gives: what could not be told, and how the body begins
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

/** The value as an object whose kind and version are text. @throws StatusError BadRequest */
export function withTypeMeta(value: unknown): Readonly<Record<string, unknown>> {
  const refuse = (what: unknown, where: string) =>
    badRequest(`couldn't get version/kind; json parse error: json: cannot unmarshal ${goKind(what)} into Go ${where}`);
  if (value === null) return {};
  if (!isObject(value))
    throw refuse(
      value,
      'value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }',
    );
  for (const name of ['kind', 'apiVersion']) {
    const field = own(value, name) ?? '';
    if (typeof field !== 'string') throw refuse(field, `struct field .${name} of type string`);
    if (name === 'apiVersion' && field.split('/').length > 2) throw badRequest(`unexpected GroupVersion string: ${field}`);
  }
  return value;
}

/** What one error of strict decoding is as warnings: each key that YAML sets twice is one of its own. */
export function warningsOf(error: string): readonly string[] {
  const lines = /^(?:error converting YAML to JSON: )?yaml: unmarshal errors:\n(.*)$/s.exec(error)?.[1];
  return lines === undefined ? [error] : lines.split('\n').map((line) => line.trimStart());
}

/** The keys that YAML sets twice as one error of strict decoding. */
export const duplicateErrors = (duplicates: readonly string[]): readonly string[] =>
  duplicates.length === 0 ? [] : [`yaml: unmarshal errors:\n${duplicates.join('\n')}`];

/**
 * As `decodeObject` for what has been parsed already, from another format than text.
 * @throws StatusError BadRequest with the message that Kubernetes gives.
 */
export function shapeObject<T extends KubeObject = KubeObject>(value: KubeObject, options: Pick<DecodeOptions, 'expected' | 'schema'>): T {
  return shaped(value as object as Readonly<Record<string, unknown>>, options).object as T;
}

function shaped(
  value: Readonly<Record<string, unknown>>,
  { expected, schema: given }: Pick<DecodeOptions, 'expected' | 'schema'>,
): { readonly object: KubeObject; readonly schema: Schema; readonly handled: (why: string) => StatusError } {
  const actual = checkKind(value, expected);
  const schema = given ?? schemaOf(actual);
  const handled = (why: string) =>
    badRequest(`${actual.kind} in version ${JSON.stringify(actual.version)} cannot be handled as a ${expected.kind}: ${why}`);
  if (schema === undefined)
    throw handled(
      `no kind ${JSON.stringify(actual.kind)} is registered for version ${JSON.stringify(versionOf(actual))} in scheme "pkg/api/legacyscheme/scheme.go:30"`,
    );
  let object: KubeObject;
  try {
    object = conform(schema, value);
  } catch (error) {
    if (error instanceof TypeMismatch) throw handled(error.message);
    throw error;
  }
  if (object.kind !== actual.kind || object.apiVersion === undefined || object.apiVersion === '') {
    object = { ...object, kind: actual.kind, apiVersion: versionOf(actual) };
  }
  return { object, schema, handled };
}

const versionOf = ({ group, version }: GroupVersionKind) => (group === '' ? version : `${group}/${version}`);

/** Bodies of versions that are not served any more and are still taken: what they are now. Their own version is left in them. */
const alsoTaken: ReadonlyMap<string, string> = new Map([['policy/v1beta1 Eviction', 'v1']]);

function checkKind(value: Readonly<Record<string, unknown>>, expected: GroupVersionKind): GroupVersionKind {
  const { kind: ownKind, apiVersion } = typeMetaOf(value);
  const kind = ownKind || expected.kind;
  const { group, version } = apiVersion === '' ? expected : parseApiVersion(apiVersion);
  const actual = { group, version, kind };
  if (kind !== expected.kind || group !== expected.group) {
    if (schemaOf(actual) === undefined) return actual;
    throw badRequest(
      `${kind} in version ${JSON.stringify(version)} cannot be handled as a ${expected.kind}: converting (${version}.${kind}) to (${expected.version}.${expected.kind}): unknown conversion`,
    );
  }
  if (version !== expected.version) {
    if (alsoTaken.get(`${group}/${version} ${kind}`) === expected.version) return expected;
    throw badRequest(`the API version in the data (${versionOf(actual)}) does not match the expected API version (${versionOf(expected)})`);
  }
  return actual;
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

/** `__proto__`, perhaps with its underscores escaped. */
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

/** The first 30 bytes of a body that looks like JSON, else in hex, to recognize it by. */
function summary(text: string): string {
  if (text === '') return '<empty>';
  const bytes = Buffer.from(text.slice(0, 31));
  const head = bytes.subarray(0, 30);
  return `${head.toString(text.startsWith('{') ? 'utf8' : 'hex')}${bytes.length > 30 ? ' ...' : ''}`;
}

/** JSON as Kubernetes writes it: `kind`, `apiVersion` and `metadata` first; properties that are undefined are left out. */
export function encodeObject(object: object): string {
  const { kind, apiVersion, metadata, ...rest } = object as {
    readonly kind?: unknown;
    readonly apiVersion?: unknown;
    readonly metadata?: unknown;
  };
  return stringifyExact({ kind, apiVersion, metadata, ...rest });
}
