import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { ruleAllowsPath } from '@oarlock/api/rbac/policy-rules';

const star = '*';

/** A small set of strings: most rules have few values, for which comparing is faster than hashing. */
class OneOf {
  readonly #any: boolean;
  readonly #list: readonly string[];
  readonly #set: ReadonlySet<string> | undefined;

  constructor(list: readonly string[] = []) {
    this.#any = list.includes(star);
    this.#list = list;
    this.#set = list.length > 4 ? new Set(list) : undefined;
  }
  has(value: string): boolean {
    return this.#any || (this.#set?.has(value) ?? this.#list.includes(value));
  }
}

export interface ResourceRequest {
  readonly verb: string;
  readonly group: string;
  /** Includes the subresource: `pods/log`. */
  readonly resource: string;
  /** `*\/log` for the subresource `log`; '' without a subresource. */
  readonly anyResource: string;
  readonly name: string;
}

/** A policy rule compiled for fast evaluation. */
export class CompiledRule {
  readonly rule: PolicyRule;
  readonly #verbs: OneOf;
  readonly #groups: OneOf;
  readonly #resources: OneOf;
  readonly #names: ReadonlySet<string> | undefined;

  constructor(rule: PolicyRule) {
    this.rule = rule;
    this.#verbs = new OneOf(rule.verbs);
    this.#groups = new OneOf(rule.apiGroups);
    this.#resources = new OneOf(rule.resources);
    this.#names = rule.resourceNames !== undefined && rule.resourceNames.length > 0 ? new Set(rule.resourceNames) : undefined;
  }

  allows({ verb, group, resource, anyResource, name }: ResourceRequest): boolean {
    return (
      this.#verbs.has(verb) &&
      this.#groups.has(group) &&
      (this.#resources.has(resource) || (anyResource !== '' && this.#resources.has(anyResource))) &&
      (this.#names === undefined || this.#names.has(name))
    );
  }

  allowsPath(verb: string, path: string): boolean {
    return ruleAllowsPath(this.rule, verb, path);
  }
}
