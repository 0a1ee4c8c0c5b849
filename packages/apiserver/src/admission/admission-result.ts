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
  if (!context.isConfidential) span?.setAttribute('oarlock.changed', changedPaths(before, result));
  return result;
}

/** Returns the JSON paths at which two objects differ, such as `spec.containers[0].image`, for spans. */
export function changedPaths(before: unknown, after: unknown): string[] {
  const paths: string[] = [];
  const visit = (a: unknown, b: unknown, path: string): void => {
    if (paths.length >= maxChangedPaths || a === b) return;
    if (Array.isArray(a) && Array.isArray(b)) {
      for (let i = 0; i < Math.max(a.length, b.length); i++) visit(a[i], b[i], `${path}[${i}]`);
    } else if (isObject(a) && isObject(b)) {
      // plugins copy what they change and share the rest
      for (const key in a) if (a[key] !== b[key]) visit(a[key], b[key], path === '' ? key : `${path}.${key}`);
      for (const key in b) if (!Object.hasOwn(a, key)) visit(undefined, b[key], path === '' ? key : `${path}.${key}`);
    } else if (!jsonEqual(a, b)) paths.push(path);
  };
  visit(before, after, '');
  return paths;
}
