import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { ruleAllowsPath } from '@oarlock/spi/authz-rules';

const star = '*';

/** Values of a list, one at a time: most rules have few, where comparing is quicker than hashing. */
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

/** A rule, ready to be asked. */
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

  /** `resource` has its subresource; `below` is `*\/subresource`, or '' where there is none. */
  allows(verb: string, group: string, resource: string, below: string, name: string): boolean {
    return (
      this.#verbs.has(verb) &&
      this.#groups.has(group) &&
      (this.#resources.has(resource) || (below !== '' && this.#resources.has(below))) &&
      (this.#names === undefined || this.#names.has(name))
    );
  }

  allowsPath(verb: string, path: string): boolean {
    return ruleAllowsPath(this.rule, verb, path);
  }
}
