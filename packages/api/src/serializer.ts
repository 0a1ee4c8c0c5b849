import { checkJson, conform, TypeMismatch } from './conform.ts';
import { parseExact, stringifyExact } from './exact-json.ts';
import { goSyntaxError } from './json-fault.ts';
import { isObject } from './json.ts';
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
  /** The body has to say its kind and version itself, as those of custom resources do. */
  readonly complete?: boolean;
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
  const { type, expected, fieldValidation = 'Ignore', exact = false } = options;
  const text = textOf(body);
  let value: unknown;
  let duplicates: readonly string[] = [];
  try {
    if (type === 'application/yaml') {
      ({ value, duplicates } = parseYaml(text));
      checkJson(value);
    } else value = parseJson(text, exact);
    if (!isObject(value))
      throw badRequest(
        `couldn't get version/kind; json parse error: json: cannot unmarshal ${Array.isArray(value) ? 'array' : typeof value} into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }`,
      );
  } catch (error) {
    if (isStatus(error, 'BadRequest')) {
      throw badRequest(`the object provided is unrecognized (must be of type ${expected.kind}): ${error.message} (${summary(text)})`);
    }
    throw error;
  }
  if (options.complete === true) checkComplete(value, text, expected);
  const { object, schema, handled } = shaped(value, options);
  const warnings =
    fieldValidation === 'Ignore' ? [] : type === 'application/json' ? strictErrors(text, schema) : yamlErrors(schema, value, duplicates);
  if (warnings.length > 0 && fieldValidation === 'Strict') throw handled(`strict decoding error: ${warnings.join(', ')}`);
  return { object: object as T, warnings };
}

/** @throws StatusError BadRequest */
function checkComplete(value: Readonly<Record<string, unknown>>, text: string, expected: GroupVersionKind): void {
  const isMissing = (name: 'kind' | 'apiVersion') => (value[name] ?? '') === '';
  if (isMissing('kind'))
    throw badRequest(
      `the object provided is unrecognized (must be of type ${expected.kind}): Object 'Kind' is missing in '${text}' (${summary(text)})`,
    );
  if (isMissing('apiVersion'))
    throw badRequest(`the API version in the data () does not match the expected API version (${versionOf(expected)})`);
}

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

function yamlErrors(schema: Schema, value: unknown, duplicates: readonly string[]): string[] {
  return [...(duplicates.length === 0 ? [] : [`yaml: unmarshal errors:\n${duplicates.join('\n')}`]), ...unknownFields(schema, value)];
}

function checkKind(value: Readonly<Record<string, unknown>>, expected: GroupVersionKind): GroupVersionKind {
  const text = (name: 'kind' | 'apiVersion') => {
    const field = Object.hasOwn(value, name) ? value[name] : undefined;
    if (field === undefined || field === null || typeof field === 'string') return field ?? '';
    const go = name === 'kind' ? 'Kind' : 'APIVersion';
    throw badRequest(
      `couldn't get version/kind; json parse error: json: cannot unmarshal ${typeof field} into Go struct field .${name} of type string (${go})`,
    );
  };
  const kind = text('kind') || expected.kind;
  const apiVersion = text('apiVersion');
  const { group, version } = apiVersion === '' ? expected : parseApiVersion(apiVersion);
  const actual = { group, version, kind };
  if (kind !== expected.kind || group !== expected.group) {
    if (schemaOf(actual) === undefined) return actual;
    throw badRequest(
      `${kind} in version ${JSON.stringify(version)} cannot be handled as a ${expected.kind}: converting (${version}.${kind}) to (${expected.version}.${expected.kind}): unknown conversion`,
    );
  }
  if (version !== expected.version) {
    throw badRequest(`the API version in the data (${versionOf(actual)}) does not match the expected API version (${versionOf(expected)})`);
  }
  return actual;
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

/** The first 30 characters of a body that looks like JSON, else in hex, to recognize it by. */
function summary(text: string): string {
  if (text === '') return '<empty>';
  const head = text.slice(0, 30);
  return `${text.startsWith('{') ? head : Buffer.from(head).toString('hex')}${text.length > 30 ? ' ...' : ''}`;
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
