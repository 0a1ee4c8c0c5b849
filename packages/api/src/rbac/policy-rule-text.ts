import type { PolicyRule } from '@oarlock/api/types/rbac-v1';

/** A rule for resources in short form: `verbs | groups | resources` or `verbs | groups | resources | names`. */
export const policyRulePattern = /^[^\s|]+ \| [^\s|]+ \| [^\s|]+(?: \| [^\s|]+)?$/;

/**
 * Parses a rule in short form: `verbs | groups | resources | names` or `verbs | paths`, with comma-separated lists. `core` is the core group. The text
 * is not validated; `policyRulePattern` does that for rules of other authors.
 */
export function parsePolicyRule(text: string): PolicyRule {
  const [verbs = [], second = [], resources, resourceNames] = text.split(' | ').map((list) => list.split(','));
  if (resources === undefined) return { verbs, nonResourceURLs: second };
  return { verbs, apiGroups: second.map((group) => (group === 'core' ? '' : group)), resources, ...(resourceNames && { resourceNames }) };
}

/** Returns the rules of a list in which `;` separates them, as plugins declare them. */
export const splitPolicyRules = (text: string): readonly string[] =>
  text
    .split(';')
    .map((rule) => rule.trim())
    .filter((rule) => rule !== '');
