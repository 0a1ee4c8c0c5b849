import { isObject, jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { isAdmissionDecision, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Span } from '@opentelemetry/api';
import type { AdmissionAttributes } from './admission-attributes.ts';
import { throwIfDenied } from './admission-rejection.ts';
import type { RequestContext } from '../endpoints/request/request-context.ts';

const maxChangedPaths = 32;

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
  if (span !== undefined && !context.isConfidential)
    for (const [kind, paths] of Object.entries(changedPaths(before, result)))
      if (paths.length > 0) span.setAttribute(`oarlock.${kind}`, paths);
  return result;
}

const memberPath = (path: string, key: string): string =>
  /^[\w$-]+$/.test(key) ? (path === '' ? key : `${path}.${key}`) : `${path}[${JSON.stringify(key)}]`;

export interface ChangedPaths {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
}

/** Returns the JSON paths at which two objects differ, such as `spec.containers[0].image`, for spans: spans carry no values, which may be confidential. */
export function changedPaths(before: unknown, after: unknown): ChangedPaths {
  const paths = { added: [] as string[], changed: [] as string[], removed: [] as string[] };
  let left = maxChangedPaths;
  const visit = (a: unknown, b: unknown, path: string): void => {
    if (left <= 0 || a === b) return;
    if (Array.isArray(a) && Array.isArray(b)) {
      for (let i = 0; i < Math.max(a.length, b.length); i++) if (a[i] !== b[i]) visit(a[i], b[i], `${path}[${i}]`);
    } else if (isObject(a) && isObject(b)) {
      // plugins copy what they change and share the rest
      for (const key in a) if (a[key] !== b[key]) visit(a[key], b[key], memberPath(path, key));
      for (const key in b) if (!Object.hasOwn(a, key)) visit(undefined, b[key], memberPath(path, key));
    } else if (!jsonEqual(a, b)) {
      left -= 1;
      paths[a === undefined ? 'added' : b === undefined ? 'removed' : 'changed'].push(path);
    }
  };
  visit(before, after, '');
  return paths;
}
