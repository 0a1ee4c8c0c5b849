import { isObject, jsonEqual } from '@oarlock/api/json';
import type { KubeObject } from '@oarlock/api/object';
import { isVerdict, type Verdict } from '@oarlock/spi/admission';
import type { Span } from '@opentelemetry/api';
import type { Admitted } from './admission-chain.ts';
import { refuse } from './admission-refusal.ts';
import type { Call } from './call.ts';

const maxChanged = 32;

/** What is made of a late answer, in the span of who gives it. */
export async function ended<T, R>(answer: Promise<T>, span: Span | undefined, made: (answer: T) => R): Promise<R> {
  try {
    return made(await answer);
  } finally {
    span?.end();
  }
}

/** The object after an answer. @throws StatusError of a refusal */
export function changed(
  before: KubeObject,
  answer: KubeObject | Verdict | undefined,
  call: Call,
  admitted: Admitted,
  span: Span | undefined,
): KubeObject {
  if (answer === undefined || answer === before) return before;
  if (isVerdict(answer)) {
    refuse(answer, admitted, call);
    return before;
  }
  // spelled out when somebody reads the trace
  span?.setAttribute('oarlock.changed', changedPaths(before, answer));
  return answer;
}

/** JSON paths at which two objects differ, for traces: `spec.containers[0].image`. */
export function changedPaths(before: unknown, after: unknown): string[] {
  const paths: string[] = [];
  const visit = (a: unknown, b: unknown, path: string): void => {
    if (paths.length >= maxChanged || a === b) return;
    if (Array.isArray(a) && Array.isArray(b)) {
      for (let i = 0; i < Math.max(a.length, b.length); i++) visit(a[i], b[i], `${path}[${i}]`);
    } else if (isObject(a) && isObject(b)) {
      // admission copies what it changes and shares the rest
      for (const key in a) if (a[key] !== b[key]) visit(a[key], b[key], path === '' ? key : `${path}.${key}`);
      for (const key in b) if (!Object.hasOwn(a, key)) visit(undefined, b[key], path === '' ? key : `${path}.${key}`);
    } else if (!jsonEqual(a, b)) paths.push(path);
  };
  visit(before, after, '');
  return paths;
}
