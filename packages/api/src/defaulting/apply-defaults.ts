import { coreRules } from './core.ts';
import { otherRules } from './other-groups.ts';
import type { DefaultingRule } from './defaulting-rule.ts';
import { taintTimes } from './taint-times.ts';
import { workloadRules } from './workloads.ts';
import type { GroupVersionKind } from '../kinds.ts';
import type { KubeObject } from '../object.ts';

const rules: ReadonlyMap<string, DefaultingRule> = new Map(Object.entries({ ...coreRules, ...workloadRules, ...otherRules }));

/**
 * Returns an object with the defaults of its kind (upstream's SetDefaults functions and declarative defaults), or the object itself if it has
 * all of them. Does not change its argument; idempotent. Values that a strategy sets once on create (a namespace's finalizer, status, generation,
 * uid) are not defaults. Expects an object that conforms to its schema.
 * @param now the time of the request in milliseconds since the Unix epoch; without it, defaults that are times are not set
 */
export function applyDefaults<T extends KubeObject>({ group, version, kind }: GroupVersionKind, object: T, now?: number): T {
  const rule = rules.get(`${group === '' ? '' : `${group}/`}${version}/${kind}`);
  const times = now === undefined ? undefined : taintTimes(group, kind, now);
  const fields = object as unknown as Readonly<Record<string, unknown>>;
  const result = rule === undefined ? fields : rule(fields);
  return (times === undefined ? result : times(result)) as unknown as T;
}
