import { duplicate, fieldForbidden, invalid, notSupported, required } from '../field-error.ts';
import type {
  Affinity,
  NodeSelector,
  NodeSelectorRequirement,
  NodeSelectorTerm,
  PodAffinityTerm,
  Toleration,
  TopologySpreadConstraint,
} from '../generated/types/core-v1.ts';
import type { LabelSelector } from '../generated/types/meta-v1.ts';
import { isDns1123Label, isDns1123Subdomain, isLabelValue } from '../names.ts';
import { ifOneOf, invalidEach, isNotPositive, qualifiedName, type Errors } from './checks.ts';
import { labelSelector } from './meta.ts';

const taintEffects = ['NoExecute', 'NoSchedule', 'PreferNoSchedule'];
export function taintEffect(errors: Errors, path: string, effect: string | undefined, allowEmpty: boolean): void {
  if (!effect) {
    if (!allowEmpty) errors.push(required(path));
  } else ifOneOf(errors, path, effect, taintEffects);
}

function requirement(
  errors: Errors,
  path: string,
  { key = '', operator, values = [] }: NodeSelectorRequirement,
  checkValues: boolean,
): void {
  switch (operator) {
    case 'In':
    case 'NotIn':
      if (values.length === 0) errors.push(required(`${path}.values`, "must be specified when `operator` is 'In' or 'NotIn'"));
      break;
    case 'Exists':
    case 'DoesNotExist':
      if (values.length > 0)
        errors.push(fieldForbidden(`${path}.values`, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
      break;
    case 'Gt':
    case 'Lt':
      if (values.length !== 1) errors.push(required(`${path}.values`, "must be specified single value when `operator` is 'Lt' or 'Gt'"));
      break;
    default:
      errors.push(invalid(`${path}.operator`, operator ?? '', 'not a valid selector operator'));
  }
  qualifiedName(errors, `${path}.key`, key);
  if (checkValues) for (const [i, value] of values.entries()) invalidEach(errors, `${path}.values[${i}]`, value, isLabelValue(value));
}

function fieldRequirement(errors: Errors, path: string, { key = '', operator, values = [] }: NodeSelectorRequirement): void {
  if (operator !== 'In' && operator !== 'NotIn') errors.push(invalid(`${path}.operator`, operator ?? '', 'not a valid selector operator'));
  else if (values.length !== 1)
    errors.push(required(`${path}.values`, "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"));
  if (key !== 'metadata.name') errors.push(invalid(`${path}.key`, key, 'not a valid field selector key'));
  else for (const [i, value] of values.entries()) invalidEach(errors, `${path}.values[${i}]`, value, isDns1123Subdomain(value));
}

function term(errors: Errors, path: string, value: NodeSelectorTerm, checkValues: boolean): void {
  for (const [i, expression] of (value.matchExpressions ?? []).entries())
    requirement(errors, `${path}.matchExpressions[${i}]`, expression, checkValues);
  for (const [i, field] of (value.matchFields ?? []).entries()) fieldRequirement(errors, `${path}.matchFields[${i}]`, field);
}

export function nodeSelector(errors: Errors, path: string, selector: NodeSelector): void {
  const terms = selector.nodeSelectorTerms ?? [];
  if (terms.length === 0) errors.push(required(`${path}.nodeSelectorTerms`, 'must have at least one node selector term'));
  for (const [i, value] of terms.entries()) term(errors, `${path}.nodeSelectorTerms[${i}]`, value, true);
}

function weight(errors: Errors, path: string, value: number | undefined): void {
  if (!(value !== undefined && value > 0 && value <= 100)) errors.push(invalid(path, value ?? 0, 'must be in the range 1-100'));
}

function labelKeys(errors: Errors, path: string, keys: readonly string[] | undefined, selector: LabelSelector | undefined): void {
  if (keys === undefined || keys.length === 0) return;
  if (selector === undefined) errors.push(fieldForbidden(path, 'must not be specified when labelSelector is not set'));
  else for (const [i, key] of keys.entries()) qualifiedName(errors, `${path}[${i}]`, key);
}

function podTerm(errors: Errors, path: string, value: PodAffinityTerm): void {
  labelSelector(errors, `${path}.labelSelector`, value.labelSelector);
  labelSelector(errors, `${path}.namespaceSelector`, value.namespaceSelector);
  for (const name of value.namespaces ?? []) invalidEach(errors, `${path}.namespace`, name, isDns1123Label(name));
  labelKeys(errors, `${path}.matchLabelKeys`, value.matchLabelKeys, value.labelSelector);
  labelKeys(errors, `${path}.mismatchLabelKeys`, value.mismatchLabelKeys, value.labelSelector);
  for (const [i, key] of (value.matchLabelKeys ?? []).entries()) {
    if (value.mismatchLabelKeys?.includes(key) === true)
      errors.push(invalid(`${path}.matchLabelKeys[${i}]`, key, 'exists in both matchLabelKeys and mismatchLabelKeys'));
  }
  if (!value.topologyKey) errors.push(required(`${path}.topologyKey`, 'can not be empty'));
  qualifiedName(errors, `${path}.topologyKey`, value.topologyKey ?? '');
}

export function affinity(errors: Errors, path: string, value: Affinity | undefined): void {
  const mandatory = 'requiredDuringSchedulingIgnoredDuringExecution';
  const preferred = 'preferredDuringSchedulingIgnoredDuringExecution';
  const node = value?.nodeAffinity;
  if (node?.[mandatory] !== undefined) nodeSelector(errors, `${path}.nodeAffinity.${mandatory}`, node[mandatory]);
  for (const [i, preference] of (node?.[preferred] ?? []).entries()) {
    weight(errors, `${path}.nodeAffinity.${preferred}[${i}].weight`, preference.weight);
    term(errors, `${path}.nodeAffinity.${preferred}[${i}].preference`, preference.preference ?? {}, false);
  }
  for (const kind of ['podAffinity', 'podAntiAffinity'] as const) {
    for (const [i, podAffinityTerm] of (value?.[kind]?.[mandatory] ?? []).entries())
      podTerm(errors, `${path}.${kind}.${mandatory}[${i}]`, podAffinityTerm);
    for (const [i, preference] of (value?.[kind]?.[preferred] ?? []).entries()) {
      weight(errors, `${path}.${kind}.${preferred}[${i}].weight`, preference.weight);
      podTerm(errors, `${path}.${kind}.${preferred}[${i}].podAffinityTerm`, preference.podAffinityTerm ?? { topologyKey: '' });
    }
  }
}

export function tolerations(errors: Errors, path: string, list: readonly Toleration[]): void {
  for (const [i, { key = '', operator = '', value = '', effect = '', tolerationSeconds }] of list.entries()) {
    const at = `${path}[${i}]`;
    if (key !== '') qualifiedName(errors, `${at}.key`, key);
    else if (operator !== 'Exists')
      errors.push(
        invalid(`${at}.operator`, operator, 'operator must be Exists when `key` is empty, which means "match all values and all keys"'),
      );
    if (tolerationSeconds !== undefined && effect !== 'NoExecute')
      errors.push(invalid(`${at}.effect`, effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"));
    if (operator === '' || operator === 'Equal') {
      const messages = isLabelValue(value);
      if (messages.length > 0) errors.push(invalid(`${at}.operator`, value, messages.join(';')));
    } else if (operator === 'Exists') {
      if (value !== '') errors.push(invalid(`${at}.operator`, value, "value must be empty when `operator` is 'Exists'"));
    } else errors.push(notSupported(`${at}.operator`, operator, ['Equal', 'Exists']));
    taintEffect(errors, `${at}.effect`, effect, true);
  }
}

export function topologySpread(errors: Errors, path: string, list: readonly TopologySpreadConstraint[]): void {
  for (const [i, constraint] of list.entries()) {
    const at = `${path}[${i}]`;
    const { maxSkew = 0, topologyKey = '', whenUnsatisfiable = '', minDomains, labelSelector: selector } = constraint;
    if (maxSkew <= 0) errors.push(invalid(`${at}.maxSkew`, maxSkew, isNotPositive));
    if (topologyKey === '') errors.push(required(`${at}.topologyKey`, 'can not be empty'));
    ifOneOf(errors, `${at}.whenUnsatisfiable`, whenUnsatisfiable, ['DoNotSchedule', 'ScheduleAnyway']);
    if (list.slice(i + 1).some((other) => other.topologyKey === topologyKey && other.whenUnsatisfiable === whenUnsatisfiable)) {
      errors.push(duplicate(`${at}.{topologyKey, whenUnsatisfiable}`, `{${topologyKey}, ${whenUnsatisfiable}}`));
    }
    if (minDomains !== undefined) {
      if (minDomains <= 0) errors.push(invalid(`${at}.minDomains`, minDomains, isNotPositive));
      if (whenUnsatisfiable !== 'DoNotSchedule')
        errors.push(
          invalid(`${at}.minDomains`, minDomains, `can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ${whenUnsatisfiable}`),
        );
    }
    ifOneOf(errors, `${at}.nodeAffinityPolicy`, constraint.nodeAffinityPolicy, ['Honor', 'Ignore']);
    ifOneOf(errors, `${at}.nodeTaintsPolicy`, constraint.nodeTaintsPolicy, ['Honor', 'Ignore']);
    if (constraint.matchLabelKeys?.length && selector === undefined)
      errors.push(fieldForbidden(`${at}.matchLabelKeys`, 'must not be specified when labelSelector is not set'));
    for (const [j, key] of (constraint.matchLabelKeys ?? []).entries()) {
      qualifiedName(errors, `${at}.matchLabelKeys[${j}]`, key);
      const selected =
        Object.hasOwn(selector?.matchLabels ?? {}, key) ||
        // the server itself adds the pod's own value of each key (KEP-3243)
        selector?.matchExpressions?.some(
          ({ key: own, operator, values }) => own === key && !(operator === 'In' && values?.length === 1),
        ) === true;
      if (selected) errors.push(invalid(`${at}.matchLabelKeys[${j}]`, key, 'exists in both matchLabelKeys and labelSelector'));
    }
    labelSelector(errors, `${at}.labelSelector`, selector);
  }
}
