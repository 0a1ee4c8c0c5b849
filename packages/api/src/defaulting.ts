import { coreRules } from './defaulting/core.ts';
import { otherRules } from './defaulting/others.ts';
import type { Rule } from './defaulting/rule.ts';
import { workloadRules } from './defaulting/workloads.ts';
import type { GroupVersionKind } from './kinds.ts';
import type { KubeObject } from './object.ts';

const rules: ReadonlyMap<string, Rule> = new Map(Object.entries({ ...coreRules, ...workloadRules, ...otherRules }));

/**
 * An object with the defaults of its kind (upstream's SetDefaults and declared defaults): the object itself when it has them all.
 * Never changes its argument. Idempotent. What a strategy sets once on create (a namespace's finalizer, status, generation, uid) is not
 * a default and not done here. Expects an object that conforms to its schema.
 */
export function applyDefaults<T extends KubeObject>({ group, version, kind }: GroupVersionKind, object: T): T {
  const rule = rules.get(`${group === '' ? '' : `${group}/`}${version}/${kind}`);
  return rule === undefined ? object : (rule(object as unknown as Readonly<Record<string, unknown>>) as unknown as T);
}
