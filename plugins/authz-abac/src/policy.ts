import type { Identity } from '@oarlock/spi/authn';
import type { Attributes } from '@oarlock/spi/authz';
import { z } from 'zod';

const text = z.string().default('');
const policy = z.strictObject({
  apiVersion: z.literal('abac.authorization.kubernetes.io/v1beta1'),
  kind: z.literal('Policy'),
  spec: z.strictObject({
    user: text,
    group: text,
    readonly: z.boolean().default(false),
    apiGroup: text,
    resource: text,
    namespace: text,
    nonResourcePath: text,
  }),
});
export type Policy = z.output<typeof policy>['spec'];

/** Parses a file with one JSON policy per line. @throws Error with the line number if a line is invalid */
export function parsePolicies(content: string, file: string): readonly Policy[] {
  const policies: Policy[] = [];
  for (const [index, line] of content.split('\n').entries()) {
    if (line.trim() === '' || line.trimStart().startsWith('#')) continue;
    try {
      policies.push(policy.parse(JSON.parse(line)).spec);
    } catch (cause) {
      throw new Error(`${file}:${index + 1}: no policy of abac.authorization.kubernetes.io/v1beta1`, { cause });
    }
  }
  return policies;
}

const readVerbs: ReadonlySet<string> = new Set(['get', 'list', 'watch']);
const matches = (rule: string, value: string) => rule === '*' || rule === value;

/** Returns true if the policy's user and group match. `*` matches every authenticated user. A policy with a user and a group requires both. */
function subjectMatches({ user, group }: Policy, { name, groups }: Identity): boolean {
  if (user === '' && group === '') return false;
  const isAuthenticated = groups.includes('system:authenticated');
  const userMatches = user === '' || (user === '*' ? isAuthenticated : user === name);
  const groupMatches = group === '' || (group === '*' ? isAuthenticated : groups.includes(group));
  return userMatches && groupMatches;
}

export function policyMatches(rule: Policy, attributes: Attributes): boolean {
  if (!subjectMatches(rule, attributes.identity)) return false;
  if (rule.readonly && !readVerbs.has(attributes.verb)) return false;
  if (attributes.kind === 'path') {
    const { nonResourcePath: path } = rule;
    return (
      path === '*' ||
      (path !== '' && (path === attributes.path || (path.endsWith('*') && attributes.path.startsWith(path.replace(/\*+$/, '')))))
    );
  }
  return (
    matches(rule.namespace, attributes.namespace) && matches(rule.resource, attributes.resource) && matches(rule.apiGroup, attributes.group)
  );
}
