import { isObject } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';

/**
 * Tells whether an expression is stored already. Stored expressions compile in the environment of stored expressions, which offers everything that any
 * version has offered; others compile in the environment of new expressions.
 */
export type IsStored = (expression: string) => boolean;

/** For objects that are read from storage: all of their expressions are stored. */
export const allStored: IsStored = () => true;

const expressionFields: ReadonlySet<string> = new Set(['expression', 'messageExpression', 'valueExpression']);

function collect(value: unknown, into: Set<string>): void {
  if (Array.isArray(value)) for (const item of value) collect(item, into);
  else if (isObject(value))
    for (const [key, each] of Object.entries(value)) {
      if (typeof each !== 'string') collect(each, into);
      else if (expressionFields.has(key)) into.add(each);
    }
}

/** Returns whether a policy or webhook configuration contained an expression before an update; a new object has no stored expressions. */
export function storedIn(old: KubeObject | undefined): IsStored {
  const expressions = new Set<string>();
  const { spec, webhooks } = (old ?? {}) as { readonly spec?: unknown; readonly webhooks?: unknown };
  collect([spec, webhooks], expressions);
  return (expression) => expressions.has(expression);
}
