import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { ruleAllowsPath } from '@oarlock/api/rbac/policy-rules';

const star = '*';

/** A set of strings that compares instead of hashing, which is faster because most rules have few values. */
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
  /** The resource, including the subresource: `pods/log`. */
  readonly resource: string;
  /** The wildcard of the subresource: `*\/log` for `log`; empty without a subresource. */
  readonly anyResource: string;
  readonly name: string;
}

/** An RBAC policy rule that is compiled for fast evaluation. */
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
