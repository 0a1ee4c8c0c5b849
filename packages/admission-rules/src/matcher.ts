import { selectorFromLabelSelector, type Selector } from '@oarlock/api/selectors/label-selector';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import { configurationGroup } from './policy-configuration.ts';
import type { AdmissionRequest } from '@oarlock/spi/admission';

/** A rule that selects requests by operation and resource, for a webhook or a policy. */
export interface Rule {
  readonly apiGroups?: readonly string[];
  readonly apiVersions?: readonly string[];
  readonly operations?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly scope?: string;
}
export interface MatchRules {
  readonly rules: readonly Rule[];
  readonly excluded?: readonly Rule[] | undefined;
  /** Default: `Equivalent`. */
  readonly matchPolicy?: string | undefined;
  readonly namespaceSelector?: LabelSelector | undefined;
  readonly objectSelector?: LabelSelector | undefined;
}
/**
 * Returns the labels of a namespace, or a promise if the namespace is not in the cache.
 * @throws StatusError NotFound if the namespace does not exist
 */
export type NamespaceLabels = (name: string) => Labels | Promise<Labels>;
export type Labels = Readonly<Record<string, string>>;

const noLabels: Labels = Object.freeze({});
const labelsOf = (object: KubeObject | undefined): Labels => object?.metadata?.labels ?? noLabels;
const has = (list: readonly string[] | undefined, value: string) => list !== undefined && (list.includes('*') || list.includes(value));

/**
 * Returns true for resources of the API group of admission configuration. They are exempt from admission policies and webhooks, so that a
 * policy cannot prevent its own change or removal.
 */
export function isExempt({ resource }: Pick<AdmissionRequest, 'resource'>): boolean {
  return resource.group === configurationGroup;
}

function ruleMatches(rule: Rule, { operation, subresource, name, namespace }: AdmissionRequest, resource: Resource): boolean {
  if (rule.operations !== undefined && !has(rule.operations, operation)) return false;
  if (!has(rule.apiGroups, resource.group) || !has(rule.apiVersions, resource.version)) return false;
  if (rule.resourceNames !== undefined && rule.resourceNames.length > 0 && !rule.resourceNames.includes(name)) return false;
  const namespaced = namespace !== '' && resource.resource !== 'namespaces';
  if (rule.scope === 'Namespaced' && !namespaced) return false;
  if (rule.scope === 'Cluster' && namespaced) return false;
  return (rule.resources ?? []).some((pattern) => {
    const slash = pattern.indexOf('/');
    const [of, sub] = slash < 0 ? [pattern, ''] : [pattern.slice(0, slash), pattern.slice(slash + 1)];
    return (of === '*' || of === resource.resource) && (sub === '*' || sub === subresource);
  });
}

/** Matches requests against rules, a namespaceSelector and an objectSelector. The selectors are compiled on first use. */
export class Matcher {
  readonly #rules: MatchRules;
  readonly #exact: boolean;
  #selectors: { readonly namespaces: Selector | undefined; readonly objects: Selector | undefined } | undefined;

  constructor(rules: MatchRules) {
    this.#rules = rules;
    this.#exact = rules.matchPolicy === 'Exact';
  }

  /** Returns true if the rules match the operation and the resource of the request. Does not evaluate the selectors. */
  covers(request: AdmissionRequest): boolean {
    return this.match(request) !== undefined;
  }

  /** Returns the resource that the rules match: the requested resource or an equivalent version of it; undefined if no rule matches. */
  match(request: AdmissionRequest): Resource | undefined {
    const { rules, excluded = [] } = this.#rules;
    const found = this.#find(rules, request);
    return found === undefined || this.#find(excluded, request) !== undefined ? undefined : found;
  }

  #find(rules: readonly Rule[], request: AdmissionRequest): Resource | undefined {
    const { resource } = request;
    if (rules.some((rule) => ruleMatches(rule, request, resource))) return resource;
    if (this.#exact || rules.length === 0) return undefined;
    const others = request.equivalents?.()?.resources;
    if (others === undefined) return undefined;
    for (const rule of rules) {
      const found = others.find((other) =>
        other.version !== resource.version || other.group !== resource.group ? ruleMatches(rule, request, other) : false,
      );
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /**
   * Returns true if the labels of the object and of its namespace match the selectors.
   * @throws ParseError with code `label-selector` if a selector is invalid
   */
  selects(request: AdmissionRequest, labels: NamespaceLabels): boolean | Promise<boolean> {
    const { namespaceSelector, objectSelector } = this.#rules;
    this.#selectors ??= { namespaces: selectorOf(namespaceSelector), objects: selectorOf(objectSelector) };
    const { namespaces, objects } = this.#selectors;
    if (objects !== undefined && !this.#objectSelected(objects, request)) return false;
    if (namespaces === undefined) return true;
    if (request.resource.group === '' && request.resource.resource === 'namespaces') {
      const object = request.object ?? request.old;
      if (request.subresource === '' && object !== undefined && request.operation !== 'DELETE') return namespaces.matches(labelsOf(object));
      if (request.name === '') return true;
      const found = labels(request.name);
      return found instanceof Promise ? found.then((own) => namespaces.matches(own)) : namespaces.matches(found);
    }
    if (request.namespace === '') return true;
    const found = labels(request.namespace);
    return found instanceof Promise ? found.then((own) => namespaces.matches(own)) : namespaces.matches(found);
  }

  #objectSelected(selector: Selector, { object, old }: AdmissionRequest): boolean {
    return [object, old].some((each) => each?.metadata !== undefined && selector.matches(labelsOf(each)));
  }
}

/** Compiles a selector; returns undefined if the selector is absent or matches everything. */
function selectorOf(selector: LabelSelector | undefined): Selector | undefined {
  if (selector === undefined) return undefined;
  const compiled = selectorFromLabelSelector(selector);
  return compiled.empty === true ? undefined : compiled;
}
