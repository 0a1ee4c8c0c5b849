import { isObject, jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { redactConfig } from '@oarlock/primitives/redact-secrets';
import { isAdmissionDecision, type AdmissionDecision } from '@oarlock/spi/admission';
import { valuesBeforeAttribute } from '@oarlock/spi/spans';
import type { Span } from '@opentelemetry/api';
import type { AdmissionAttributes } from './admission-attributes.ts';
import { throwIfDenied } from './admission-rejection.ts';
import type { RequestContext } from '../endpoints/request/request-context.ts';

const maxChangedPaths = 32;
/** The number of characters of one value before a change, as JSON, and of all values of a span with their paths. */
const maxValueLength = 200;
const maxValuesLength = 2_000;
/** The number of members of a value, on each of its levels, and of levels. */
const maxMembers = 8;
const maxLevels = 4;

/** Awaits the result of a plugin, returns the converted result, and ends the plugin's span. */
export async function awaitInSpan<T, R>(result: Promise<T>, span: Span | undefined, convert: (result: T) => R): Promise<R> {
  try {
    return convert(await result);
  } finally {
    span?.end();
  }
}

export interface MutationContext {
  readonly context: RequestContext;
  readonly attributes: AdmissionAttributes;
  readonly span: Span | undefined;
}

/** Returns the object after the mutation of a plugin. @throws StatusError if the plugin denied the request */
export function applyMutation(
  before: KubeObject,
  result: KubeObject | AdmissionDecision | undefined,
  { context, attributes, span }: MutationContext,
): KubeObject {
  if (result === undefined || result === before) return before;
  if (isAdmissionDecision(result)) {
    throwIfDenied(result, attributes, context);
    return before;
  }
  // names of fields are part of a body: keys of data, labels and annotations
  if (span !== undefined && !context.isConfidential) recordChanges(span, changesOf(before, result));
  return result;
}

function recordChanges(span: Span, { valuesBefore, ...paths }: Changes): void {
  for (const [kind, some] of Object.entries(paths)) if (some.length > 0) span.setAttribute(`oarlock.${kind}`, some);
  if (Object.keys(valuesBefore).length > 0) span.setAttribute(valuesBeforeAttribute, JSON.stringify(valuesBefore));
}

const memberPath = (path: string, key: string): string =>
  /^[\w$-]+$/.test(key) ? (path === '' ? key : `${path}.${key}`) : `${path}[${JSON.stringify(key)}]`;

export interface Changes {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
  /** The values of changed and removed fields before the change, by path: JSON without secrets, shortened to 200 characters, up to 2,000 together. */
  readonly valuesBefore: Readonly<Record<string, string>>;
}

interface Field {
  readonly path: string;
  /** The name that states what the field contains (`meaningOf`). */
  readonly meaning: string;
}

/** Returns the JSON paths at which two objects differ, such as `spec.containers[0].image`, and the values that they had before. */
export function changesOf(before: unknown, after: unknown): Changes {
  const paths = { added: [] as string[], changed: [] as string[], removed: [] as string[] };
  const valuesBefore: Record<string, string> = {};
  let left = maxChangedPaths;
  let lengthLeft = maxValuesLength;
  const recordValue = ({ path, meaning }: Field, value: unknown): void => {
    if (path.length >= lengthLeft) return;
    const text = valueText(meaning, value).slice(0, lengthLeft - path.length);
    lengthLeft -= path.length + text.length;
    Object.defineProperty(valuesBefore, path, { value: text, enumerable: true }); // a path may be `__proto__`
  };
  const visit = (a: unknown, b: unknown, field: Field): void => {
    if (left <= 0 || a === b) return;
    const { path, meaning } = field;
    if (Array.isArray(a) && Array.isArray(b)) {
      for (let i = 0; i < Math.max(a.length, b.length); i++) if (a[i] !== b[i]) visit(a[i], b[i], { path: `${path}[${i}]`, meaning });
    } else if (isObject(a) && isObject(b)) {
      // plugins copy what they change and share the rest
      for (const key in a) if (a[key] !== b[key]) visit(a[key], b[key], { path: memberPath(path, key), meaning: meaningOf(a, key) });
      for (const key in b) if (!Object.hasOwn(a, key)) visit(undefined, b[key], { path: memberPath(path, key), meaning: key });
    } else if (!jsonEqual(a, b)) {
      left -= 1;
      paths[a === undefined ? 'added' : b === undefined ? 'removed' : 'changed'].push(path);
      if (a !== undefined) recordValue(field, a);
    }
  };
  visit(before, after, { path: '', meaning: '' });
  return { ...paths, valuesBefore };
}

/** Returns the name that states what a field contains: of `value`, the name beside it, as in environment variables. */
function meaningOf(holder: Readonly<Record<string, unknown>>, key: string): string {
  const { name } = holder;
  return key === 'value' && typeof name === 'string' ? name : key;
}

/** Returns a value of a field as JSON, without secrets. Reads a bounded part of the value. */
function valueText(name: string, value: unknown): string {
  const json = JSON.stringify(withoutSecrets(name, excerptOf(value))) ?? '';
  return json.length <= maxValueLength ? json : `${json.slice(0, maxValueLength)}…`;
}

const withoutSecrets = (name: string, value: unknown): unknown => Object.values(redactConfig({ [name]: value }) as object)[0];

function excerptOf(value: unknown, level = 0): unknown {
  if (typeof value === 'string') return value.slice(0, 2 * maxValueLength);
  if (typeof value !== 'object' || value === null) return value;
  if (level === maxLevels) return '…';
  if (Array.isArray(value)) return value.slice(0, maxMembers).map((item: unknown) => excerptOf(item, level + 1));
  const holder = value as Readonly<Record<string, unknown>>;
  const members: [string, unknown][] = [];
  for (const key in holder) {
    if (members.length === maxMembers) break;
    const member = excerptOf(holder[key], level + 1);
    members.push([key, key === 'value' ? withoutSecrets(meaningOf(holder, key), member) : member]);
  }
  return Object.fromEntries(members);
}
