import type { PolicyRule } from '@oarlock/api/types/rbac-v1';

const none: readonly string[] = [];
const hasOrStar = (list: readonly string[], value: string) => list.includes('*') || list.includes(value);

/** Returns true if an RBAC rule allows a verb on a non-resource path. */
export function ruleAllowsPath({ verbs, nonResourceURLs = none }: PolicyRule, verb: string, path: string): boolean {
  return hasOrStar(verbs, verb) && nonResourceURLs.some((allowed) => pathCovers(allowed, path));
}

/** Returns true if an allowed path matches a path. `*` is a wildcard only at the end. */
function pathCovers(allowed: string, path: string): boolean {
  return allowed === '*' || allowed === path || (allowed.endsWith('*') && path.startsWith(allowed.replace(/\*+$/, '')));
}

/**
 * Returns the parts of `wanted` that no rule in `held` covers, merged into few rules; an empty list if all are covered. Each combination of verb,
 * group, resource and name is compared separately, so that several rules together can cover one rule (rbac.Covers upstream).
 */
export function uncoveredRules(held: readonly PolicyRule[], wanted: readonly PolicyRule[]): PolicyRule[] {
  const missing: PolicyRule[] = [];
  for (const rule of wanted) for (const part of breakdownRule(rule)) if (!held.some((each) => ruleCovers(each, part))) missing.push(part);
  return compactRules(missing);
}

function* breakdownRule({
  verbs,
  apiGroups = none,
  resources = none,
  resourceNames = none,
  nonResourceURLs = none,
}: PolicyRule): Generator<PolicyRule> {
  for (const verb of verbs) {
    for (const group of apiGroups)
      for (const resource of resources) {
        const part = { apiGroups: [group], resources: [resource], verbs: [verb] };
        if (resourceNames.length === 0) yield part;
        else for (const name of resourceNames) yield { ...part, resourceNames: [name] };
      }
    for (const url of nonResourceURLs) yield { nonResourceURLs: [url], verbs: [verb] };
  }
}

/** The fields of an RBAC rule that select requests. */
export type RuleField = 'verbs' | 'apiGroups' | 'resources' | 'resourceNames' | 'nonResourceURLs';

/** A request to compare with a rule: for a resource, or for a path. */
export interface RuleRequest {
  readonly verb: string;
  readonly group?: string;
  /** The resource with the subresource: `pods/log`. */
  readonly resource?: string;
  /** Absent or empty for requests without a name. */
  readonly name?: string;
  readonly path?: string;
}

/** Returns the fields of a rule that do not match a request; an empty list if the rule allows it. */
export function ruleMismatches(rule: PolicyRule, { verb, group = '', resource = '', name = '', path }: RuleRequest): RuleField[] {
  const { verbs, apiGroups = none, resources = none, resourceNames = none, nonResourceURLs = none } = rule;
  const mismatches: RuleField[] = hasOrStar(verbs, verb) ? [] : ['verbs'];
  if (path !== undefined)
    return nonResourceURLs.some((allowed) => pathCovers(allowed, path)) ? mismatches : [...mismatches, 'nonResourceURLs'];
  const slash = resource.indexOf('/');
  if (!hasOrStar(apiGroups, group)) mismatches.push('apiGroups');
  if (!hasOrStar(resources, resource) && (slash < 0 || !resources.includes(`*${resource.slice(slash)}`))) mismatches.push('resources');
  if (resourceNames.length > 0 && !resourceNames.includes(name)) mismatches.push('resourceNames');
  return mismatches;
}

/** Returns true if a rule covers one combination of verb, group, resource and name. */
function ruleCovers(held: PolicyRule, part: PolicyRule): boolean {
  const [verb = ''] = part.verbs;
  const [path] = part.nonResourceURLs ?? none;
  if (path !== undefined) return ruleAllowsPath(held, verb, path);
  const [group = ''] = part.apiGroups ?? none;
  const [resource = ''] = part.resources ?? none;
  const [name = ''] = part.resourceNames ?? none;
  return ruleMismatches(held, { verb, group, resource, name }).length === 0;
}

/** Merges rules that differ only in their verbs into one rule, in order. */
function compactRules(parts: readonly PolicyRule[]): PolicyRule[] {
  const together = new Map<string, PolicyRule>();
  for (const part of parts) {
    const key = JSON.stringify([part.apiGroups, part.resources, part.resourceNames, part.nonResourceURLs]);
    const known = together.get(key);
    if (known === undefined) together.set(key, part);
    else if (!known.verbs.includes(part.verbs[0] ?? '')) together.set(key, { ...known, verbs: [...known.verbs, ...part.verbs] });
  }
  return [...together.values()];
}

/** Formats a rule as in Kubernetes' messages: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`. */
export function describeRule({ apiGroups, resources, nonResourceURLs, resourceNames, verbs }: PolicyRule): string {
  const parts = [
    ['APIGroups', apiGroups],
    ['Resources', resources],
    ['NonResourceURLs', nonResourceURLs],
    ['ResourceNames', resourceNames],
    ['Verbs', verbs],
  ] as const;
  return `{${parts
    .filter(([, list]) => list !== undefined && list.length > 0)
    .map(([name, list]) => `${name}:${quotedList(list)}`)
    .join(', ')}}`;
}

/** Formats a list as Go's %q: `["a" "b"]`. */
export const quotedList = (list: readonly string[] = none): string => `[${list.map((each) => JSON.stringify(each)).join(' ')}]`;
