import type { PolicyRule } from '@oarlock/api/types/rbac-v1';

const none: readonly string[] = [];
const hasOrStar = (list: readonly string[], value: string) => list.includes('*') || list.includes(value);

/** Whether a rule of RBAC allows a verb on a path. */
export function ruleAllowsPath({ verbs, nonResourceURLs = none }: PolicyRule, verb: string, path: string): boolean {
  return hasOrStar(verbs, verb) && nonResourceURLs.some((allowed) => pathCovers(allowed, path));
}

/** Only a star at the end stands for more than itself. */
function pathCovers(allowed: string, path: string): boolean {
  return allowed === '*' || allowed === path || (allowed.endsWith('*') && path.startsWith(allowed.replace(/\*+$/, '')));
}

/**
 * The parts of `wanted` that no rule of `held` covers, compact; empty when all is covered. Parts are compared one verb, group, resource and name
 * at a time, so that several rules together may cover one. As upstream's `rbac.Covers`.
 */
export function uncovered(held: readonly PolicyRule[], wanted: readonly PolicyRule[]): PolicyRule[] {
  const missing: PolicyRule[] = [];
  for (const rule of wanted) for (const part of partsOf(rule)) if (!held.some((each) => covers(each, part))) missing.push(part);
  return compacted(missing);
}

function* partsOf({
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

/** Whether a rule covers one part. */
function covers(held: PolicyRule, part: PolicyRule): boolean {
  const [verb = ''] = part.verbs;
  if (!hasOrStar(held.verbs, verb)) return false;
  const [url] = part.nonResourceURLs ?? none;
  if (url !== undefined) return (held.nonResourceURLs ?? none).some((allowed) => pathCovers(allowed, url));
  const [group = ''] = part.apiGroups ?? none;
  const [resource = ''] = part.resources ?? none;
  const [name] = part.resourceNames ?? none;
  const { apiGroups = none, resources = none, resourceNames = none } = held;
  const slash = resource.indexOf('/');
  return (
    hasOrStar(apiGroups, group) &&
    (hasOrStar(resources, resource) || (slash >= 0 && resources.includes(`*${resource.slice(slash)}`))) &&
    (resourceNames.length === 0 || (name !== undefined && resourceNames.includes(name)))
  );
}

/** Verbs of one group, resource and names together in one rule, in the order in which they came. */
function compacted(parts: readonly PolicyRule[]): PolicyRule[] {
  const together = new Map<string, PolicyRule>();
  for (const part of parts) {
    const key = JSON.stringify([part.apiGroups, part.resources, part.resourceNames, part.nonResourceURLs]);
    const known = together.get(key);
    if (known === undefined) together.set(key, part);
    else if (!known.verbs.includes(part.verbs[0] ?? '')) together.set(key, { ...known, verbs: [...known.verbs, ...part.verbs] });
  }
  return [...together.values()];
}

/** `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`, as messages of Kubernetes show a rule. */
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

/** `["a" "b"]`, a list of strings as Go prints it with %q. */
export const quotedList = (list: readonly string[] = none): string => `[${list.map((each) => JSON.stringify(each)).join(' ')}]`;
