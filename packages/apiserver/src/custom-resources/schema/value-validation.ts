import { stringifyExact } from '@oarlock/api/json/exact-json';
import { invalid, notSupportedInOrder, required, tooLong, tooMany, typeInvalid, type FieldError } from '@oarlock/api/field/field-error';
import { isObject, jsonEqual } from '@oarlock/api/json/json';
import { correlate, type CorrelatedOld } from './correlation.ts';
import { formatOf } from './formats.ts';
import type { SchemaNode } from './schema-node.ts';

/**
 * The errors of a value, and the number of validations made. Of several failed alternatives of anyOf or oneOf, upstream reports the one
 * with the most validations.
 */
class ValidationResult {
  readonly errors: FieldError[] = [];
  checks = 0;

  merge(other: ValidationResult): void {
    this.errors.push(...other.errors);
    this.checks += other.checks;
  }
}

/** The maximum number of errors that a response lists. */
const maxErrors = 1_000;
/** The field path with which errors of the object itself are reported. */
export const rootPath = '<nil>';

/**
 * Validates a value against its schema and returns the errors with Kubernetes' messages. If `old` is given, errors in unchanged parts of
 * the value are ignored (ratcheting, KEP-4008).
 */
export function validateValue(schema: SchemaNode, value: unknown, old?: CorrelatedOld): readonly FieldError[] {
  const findings = new ValidationResult();
  check(schema, value, '', findings, old);
  return findings.errors.length > maxErrors ? findings.errors.slice(0, maxErrors) : findings.errors;
}

/** Validates the value at `path`, such as a default in a schema, and returns the errors. */
export function validateNode(schema: SchemaNode, value: unknown, path: string): readonly FieldError[] {
  const findings = new ValidationResult();
  check(schema, value, path, findings, undefined);
  return findings.errors;
}

const child = (path: string, name: string) => (path === '' ? name : `${path}.${name}`);

function check(schema: SchemaNode, value: unknown, path: string, into: ValidationResult, old: CorrelatedOld | undefined): void {
  const before = into.errors.length;
  into.checks++;
  checkType(schema, value, path, into);
  if (value === null || value === undefined) checkEnum(schema, value, path, into);
  else {
    checkParts(schema, value, path, into);
    if (typeof value === 'string') checkString(schema, value, path, into);
    else if (typeof value === 'number' || typeof value === 'bigint') checkNumber(schema, value, path, into);
    else if (Array.isArray(value)) checkList(schema, value, path, into, old);
    checkEnum(schema, value, path, into);
    if (isObject(value)) checkObject(schema, value, path, into, old);
  }
  // ratcheting: errors in an unchanged value are ignored
  if (into.errors.length > before && old !== undefined && jsonEqual(old.value, value)) into.errors.length = before;
}

/** Returns the JSON schema type of a value. A number without a fraction is an integer if it is a safe integer. */
function typeOf(value: unknown): string {
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'bigint') return 'integer';
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'integer' : 'number';
  return typeof value;
}

/** The formats that upstream's type errors contain. For numbers the format follows from the Go type. */
const goFormats: Readonly<Record<string, string>> = { integer: 'int64', number: 'float64' };

function checkType(
  { type, intOrString, nullable, source: { format = '' } }: SchemaNode,
  value: unknown,
  path: string,
  { errors }: ValidationResult,
): void {
  if (type === '' && !intOrString) return;
  const types = intOrString ? 'integer,string' : type;
  if (value === null || value === undefined) {
    if (!nullable) errors.push(typeError(path, types, 'null'));
    return;
  }
  const actual = typeOf(value);
  if (intOrString ? actual === 'integer' || actual === 'string' : actual === type || (type === 'number' && actual === 'integer')) return;
  // for a value that is neither string nor array, upstream reports the format instead of the type
  if (format !== '' && actual !== 'string' && actual !== 'array') errors.push(typeError(path, format, goFormats[actual] ?? ''));
  else errors.push(typeError(path, types, actual));
}

const typeError = (path: string, types: string, actual: string) =>
  typeInvalid(path, actual, `${path} in body must be of type ${types}: ${JSON.stringify(actual)}`);

function checkEnum({ source, nullable }: SchemaNode, value: unknown, path: string, into: ValidationResult): void {
  const allowed = source.enum;
  if (allowed === undefined || allowed.length === 0) return;
  into.checks++;
  if ((value === null && nullable) || allowed.some((each) => jsonEqual(each, value))) return;
  into.errors.push(
    notSupportedInOrder(
      path,
      value ?? null,
      allowed.map((each) => (typeof each === 'string' ? each : stringifyExact(each))),
    ),
  );
}

function checkString(schema: SchemaNode, value: string, path: string, into: ValidationResult): void {
  const { maxLength, minLength, pattern, format } = schema.source;
  const length = maxLength !== undefined || minLength !== undefined ? runes(value) : 0;
  into.checks++;
  if (maxLength !== undefined && length > maxLength) into.errors.push(tooLong(path, maxLength));
  else if (minLength !== undefined && length < minLength)
    into.errors.push(invalid(path, value, `${path} in body should be at least ${minLength} chars long`));
  else if (pattern !== undefined && schema.pattern?.test(value) === false)
    into.errors.push(invalid(path, value, `${path} in body should match '${pattern}'`));
  if (format === undefined || format === '') return;
  into.checks++;
  if (formatOf(format)?.(value) === false)
    into.errors.push(typeInvalid(path, value, `${path} in body must be of type ${format}: ${JSON.stringify(value)}`));
}

function runes(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit >= 0xd8_00 && unit < 0xdc_00) count--;
  }
  return count;
}

/** The range of each numeric type and format in Go. */
const ranges: Readonly<Record<string, Readonly<Record<string, readonly [low: number, high: number]>>>> = {
  integer: {
    '': [-(2 ** 63), 2 ** 63 - 1025],
    int64: [-(2 ** 63), 2 ** 63 - 1025],
    int32: [-(2 ** 31), 2 ** 31 - 1],
    uint32: [0, 2 ** 32 - 1],
    uint64: [0, 2 ** 64 - 2049],
  },
  number: {
    float: [-3.402_823_466_385_288_6e38, 3.402_823_466_385_288_6e38],
    float32: [-3.402_823_466_385_288_6e38, 3.402_823_466_385_288_6e38],
  },
};

/** Returns true if a number is in the range of its type and format, or if the format is unknown. */
function isWithin(value: number | bigint, type: string, format: string): boolean {
  const known = Object.hasOwn(ranges, type) ? ranges[type] : undefined;
  const range = known !== undefined && Object.hasOwn(known, format) ? known[format] : known?.[''];
  if (range === undefined || typeof value === 'bigint')
    return range === undefined || (value >= range[0] && (value <= range[1] || range[1] > 2 ** 62));
  return (type !== 'integer' || Number.isInteger(value)) && value >= range[0] && value <= range[1];
}

function checkNumber({ source, type }: SchemaNode, value: number | bigint, path: string, into: ValidationResult): void {
  const { multipleOf, maximum, exclusiveMaximum, minimum, exclusiveMinimum, format = '' } = source;
  into.checks++;
  if (!isWithin(value, type, format)) {
    const typeName = format === '' ? `${type} (default format)` : `${type} with format ${format}`;
    into.errors.push(invalid(rootPath, '', `Checked value must be of type ${typeName} in ${path}`));
  }
  const wrong = (what: string) => into.errors.push(invalid(path, value, `${path} in body should be ${what}`));
  if (multipleOf !== undefined) {
    // for a schema of type integer, upstream compares the factor as an integer
    const factor = typeOf(value) === 'integer' ? Math.trunc(multipleOf) : multipleOf;
    if (factor <= 0) into.errors.push(invalid(path, factor, `factor MultipleOf declared for ${path} must be positive: ${factor}`));
    else if (!isMultiple(value, factor)) wrong(`a multiple of ${factor}`);
  }
  if (minimum !== undefined && (exclusiveMinimum === true ? value <= minimum : value < minimum))
    wrong(exclusiveMinimum === true ? `greater than ${minimum}` : `greater than or equal to ${minimum}`);
  if (maximum !== undefined && (exclusiveMaximum === true ? value >= maximum : value > maximum))
    wrong(exclusiveMaximum === true ? `less than ${maximum}` : `less than or equal to ${maximum}`);
}

function isMultiple(value: number | bigint, of: number): boolean {
  if (typeof value === 'bigint') return value % BigInt(of) === 0n;
  const times = value / of;
  if (Math.abs(times) > Number.MAX_SAFE_INTEGER) return false;
  return Number.isInteger(times) || Math.abs(times - Math.round(times)) < 1e-9 * Math.max(1, Math.abs(times));
}

function checkList(
  schema: SchemaNode,
  value: readonly unknown[],
  path: string,
  into: ValidationResult,
  old: CorrelatedOld | undefined,
): void {
  const { items } = schema;
  const { minItems, maxItems, uniqueItems } = schema.source;
  into.checks++;
  if (items !== undefined)
    for (let i = 0; i < value.length && into.errors.length < maxErrors; i++)
      check(items, value[i], `${path}[${i}]`, into, correlate.item(schema, old, value, i));
  if (minItems !== undefined && value.length < minItems)
    into.errors.push(invalid(path, value.length, `${path} in body should have at least ${minItems} items`));
  if (maxItems !== undefined && value.length > maxItems) into.errors.push(tooMany(path, value.length, maxItems));
  if (uniqueItems === true && new Set(value.map((each) => stringifyExact(each))).size < value.length)
    into.errors.push(invalid(path, value, `${path} in body shouldn't contain duplicates`));
}

const own: ReadonlySet<string> = new Set(['metadata', 'kind', 'apiVersion']);

function checkObject(
  schema: SchemaNode,
  value: Readonly<Record<string, unknown>>,
  path: string,
  into: ValidationResult,
  old: CorrelatedOld | undefined,
): void {
  const { minProperties, maxProperties, required: wanted } = schema.source;
  into.checks++;
  const keys = Object.keys(value);
  if (minProperties !== undefined && keys.length < minProperties) {
    into.errors.push(invalid(path, keys.length, `${path} in body should have at least ${minProperties} properties`));
    return;
  }
  if (maxProperties !== undefined && keys.length > maxProperties) {
    into.errors.push(tooMany(path, keys.length, maxProperties));
    return;
  }
  const additional = schema.additionalSchema;
  const forbidsOthers = schema.source.additionalProperties === false;
  for (const key of keys) {
    if (into.errors.length >= maxErrors) return;
    if (forbidsOthers && schema.property(key) === undefined)
      into.errors.push(invalid(rootPath, '', `${path}.${key} in body is a forbidden property`));
    const property = schema.property(key) ?? (schema.root && own.has(key) ? undefined : additional);
    if (property !== undefined) check(property, value[key], child(path, key), into, correlate.field(old, key));
  }
  for (const name of wanted ?? []) {
    into.checks++;
    if (value[name] === undefined) into.errors.push(required(child(path, name)));
  }
}

/** Validates allOf, anyOf, oneOf and not. Ratcheting does not apply to the schemas inside of them. */
function checkParts(schema: SchemaNode, value: unknown, path: string, into: ValidationResult): void {
  const one = (part: SchemaNode) => {
    const findings = new ValidationResult();
    check(part, value, path, findings, undefined);
    return findings;
  };
  const quotedPath = JSON.stringify(path);
  const add = (message: string) => into.errors.push(invalid(rootPath, '', message));
  const anyOf = schema.parts('anyOf');
  if (anyOf.length > 0) {
    const best = bestOf(anyOf, one);
    if (best.failure !== undefined && best.valid === 0) {
      add(`${quotedPath} must validate at least one schema (anyOf)`);
      into.merge(best.failure);
    }
  }
  const oneOf = schema.parts('oneOf');
  if (oneOf.length > 0) {
    const { valid, failure } = bestOf(oneOf, one, true);
    if (valid !== 1)
      add(
        `${quotedPath} must validate one and only one schema (oneOf). ${valid === 0 ? 'Found none valid' : `Found ${valid} valid alternatives`}`,
      );
    if (valid === 0 && failure !== undefined) into.merge(failure);
  }
  const allOf = schema.parts('allOf');
  if (allOf.length > 0) {
    const results = allOf.map(one);
    const valid = results.filter(({ errors }) => errors.length === 0).length;
    for (const result of results) into.merge(result);
    if (valid < allOf.length) add(`${quotedPath} must validate all the schemas (allOf)${valid === 0 ? '. None validated' : ''}`);
  }
  if (schema.not !== undefined && one(schema.not).errors.length === 0) add(`${quotedPath} must not validate the schema (not)`);
}

/**
 * Returns the number of alternatives that are valid. If none is valid, also returns the errors of the alternative with the most
 * validations.
 */
function bestOf(
  parts: readonly SchemaNode[],
  one: (part: SchemaNode) => ValidationResult,
  all = false,
): { readonly valid: number; readonly failure: ValidationResult | undefined } {
  let valid = 0;
  let failure: ValidationResult | undefined;
  for (const part of parts) {
    const findings = one(part);
    if (findings.errors.length === 0) {
      valid++;
      if (!all) return { valid, failure: undefined };
    } else if (failure === undefined || findings.checks > failure.checks) failure = findings;
  }
  return { valid, failure };
}
