import { duplicate, fieldForbidden, invalid, notSupported, required } from '../../../field/field-error.ts';
import type {
  Affinity,
  NodeSelector,
  NodeSelectorRequirement,
  NodeSelectorTerm,
  PodAffinityTerm,
  Toleration,
  TopologySpreadConstraint,
} from '../../../generated/types/core-v1.ts';
import type { LabelSelector } from '../../../generated/types/meta-v1.ts';
import { isDns1123Label, isDns1123Subdomain, isLabelValue } from '../../../values/names.ts';
import { validateOptionalEnum, addInvalid, isNotPositive, validateQualifiedName, type Errors } from '../checks.ts';
import { validateLabelSelector } from '../../meta.ts';

const taintEffects = ['NoExecute', 'NoSchedule', 'PreferNoSchedule'];
export function validateTaintEffect(errors: Errors, path: string, effect: string | undefined, allowEmpty: boolean): void {
  if (!effect) {
    if (!allowEmpty) errors.push(required(path));
  } else validateOptionalEnum(errors, path, effect, taintEffects);
}

function validateRequirement(
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
  validateQualifiedName(errors, `${path}.key`, key);
  if (checkValues) for (const [i, value] of values.entries()) addInvalid(errors, `${path}.values[${i}]`, value, isLabelValue(value));
}

function validateFieldRequirement(errors: Errors, path: string, { key = '', operator, values = [] }: NodeSelectorRequirement): void {
  if (operator !== 'In' && operator !== 'NotIn') errors.push(invalid(`${path}.operator`, operator ?? '', 'not a valid selector operator'));
  else if (values.length !== 1)
    errors.push(required(`${path}.values`, "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"));
  if (key !== 'metadata.name') errors.push(invalid(`${path}.key`, key, 'not a valid field selector key'));
  else for (const [i, value] of values.entries()) addInvalid(errors, `${path}.values[${i}]`, value, isDns1123Subdomain(value));
}

function validateTerm(errors: Errors, path: string, value: NodeSelectorTerm, checkValues: boolean): void {
  for (const [i, expression] of (value.matchExpressions ?? []).entries())
    validateRequirement(errors, `${path}.matchExpressions[${i}]`, expression, checkValues);
  for (const [i, field] of (value.matchFields ?? []).entries()) validateFieldRequirement(errors, `${path}.matchFields[${i}]`, field);
}

export function validateNodeSelector(errors: Errors, path: string, selector: NodeSelector): void {
  const terms = selector.nodeSelectorTerms ?? [];
  if (terms.length === 0) errors.push(required(`${path}.nodeSelectorTerms`, 'must have at least one node selector term'));
  for (const [i, value] of terms.entries()) validateTerm(errors, `${path}.nodeSelectorTerms[${i}]`, value, true);
}

function validateWeight(errors: Errors, path: string, value: number | undefined): void {
  if (!(value !== undefined && value > 0 && value <= 100)) errors.push(invalid(path, value ?? 0, 'must be in the range 1-100'));
}

function validateLabelKeys(errors: Errors, path: string, keys: readonly string[] | undefined, selector: LabelSelector | undefined): void {
  if (keys === undefined || keys.length === 0) return;
  if (selector === undefined) errors.push(fieldForbidden(path, 'must not be specified when labelSelector is not set'));
  else for (const [i, key] of keys.entries()) validateQualifiedName(errors, `${path}[${i}]`, key);
}

function validatePodTerm(errors: Errors, path: string, value: PodAffinityTerm): void {
  validateLabelSelector(errors, `${path}.labelSelector`, value.labelSelector);
  validateLabelSelector(errors, `${path}.namespaceSelector`, value.namespaceSelector);
  for (const name of value.namespaces ?? []) addInvalid(errors, `${path}.namespace`, name, isDns1123Label(name));
  validateLabelKeys(errors, `${path}.matchLabelKeys`, value.matchLabelKeys, value.labelSelector);
  validateLabelKeys(errors, `${path}.mismatchLabelKeys`, value.mismatchLabelKeys, value.labelSelector);
  const mismatched = new Set(value.mismatchLabelKeys);
  for (const [i, key] of (value.matchLabelKeys ?? []).entries()) {
    if (mismatched.has(key))
      errors.push(invalid(`${path}.matchLabelKeys[${i}]`, key, 'exists in both matchLabelKeys and mismatchLabelKeys'));
  }
  if (!value.topologyKey) errors.push(required(`${path}.topologyKey`, 'can not be empty'));
  validateQualifiedName(errors, `${path}.topologyKey`, value.topologyKey ?? '');
}

export function validateAffinity(errors: Errors, path: string, value: Affinity | undefined): void {
  const mandatory = 'requiredDuringSchedulingIgnoredDuringExecution';
  const preferred = 'preferredDuringSchedulingIgnoredDuringExecution';
  const node = value?.nodeAffinity;
  if (node?.[mandatory] !== undefined) validateNodeSelector(errors, `${path}.nodeAffinity.${mandatory}`, node[mandatory]);
  for (const [i, preference] of (node?.[preferred] ?? []).entries()) {
    validateWeight(errors, `${path}.nodeAffinity.${preferred}[${i}].weight`, preference.weight);
    validateTerm(errors, `${path}.nodeAffinity.${preferred}[${i}].preference`, preference.preference ?? {}, false);
  }
  for (const kind of ['podAffinity', 'podAntiAffinity'] as const) {
    for (const [i, podAffinityTerm] of (value?.[kind]?.[mandatory] ?? []).entries())
      validatePodTerm(errors, `${path}.${kind}.${mandatory}[${i}]`, podAffinityTerm);
    for (const [i, preference] of (value?.[kind]?.[preferred] ?? []).entries()) {
      validateWeight(errors, `${path}.${kind}.${preferred}[${i}].weight`, preference.weight);
      validatePodTerm(errors, `${path}.${kind}.${preferred}[${i}].podAffinityTerm`, preference.podAffinityTerm ?? { topologyKey: '' });
    }
  }
}

export function validateTolerations(errors: Errors, path: string, list: readonly Toleration[]): void {
  for (const [i, { key = '', operator = '', value = '', effect = '', tolerationSeconds }] of list.entries()) {
    const at = `${path}[${i}]`;
    if (key !== '') validateQualifiedName(errors, `${at}.key`, key);
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
    validateTaintEffect(errors, `${at}.effect`, effect, true);
  }
}

const spreadKey = ({ topologyKey = '', whenUnsatisfiable = '' }: TopologySpreadConstraint) => `${topologyKey} ${whenUnsatisfiable}`;
export function validateTopologySpread(errors: Errors, path: string, list: readonly TopologySpreadConstraint[]): void {
  if (list.length === 0) return;
  const last = new Map(list.map((constraint, i) => [spreadKey(constraint), i]));
  for (const [i, constraint] of list.entries()) {
    const at = `${path}[${i}]`;
    const { maxSkew = 0, topologyKey = '', whenUnsatisfiable = '', minDomains, labelSelector: selector } = constraint;
    if (maxSkew <= 0) errors.push(invalid(`${at}.maxSkew`, maxSkew, isNotPositive));
    if (topologyKey === '') errors.push(required(`${at}.topologyKey`, 'can not be empty'));
    validateOptionalEnum(errors, `${at}.whenUnsatisfiable`, whenUnsatisfiable, ['DoNotSchedule', 'ScheduleAnyway']);
    if (last.get(spreadKey(constraint)) !== i) {
      errors.push(duplicate(`${at}.{topologyKey, whenUnsatisfiable}`, `{${topologyKey}, ${whenUnsatisfiable}}`));
    }
    if (minDomains !== undefined) {
      if (minDomains <= 0) errors.push(invalid(`${at}.minDomains`, minDomains, isNotPositive));
      if (whenUnsatisfiable !== 'DoNotSchedule')
        errors.push(
          invalid(`${at}.minDomains`, minDomains, `can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ${whenUnsatisfiable}`),
        );
    }
    validateOptionalEnum(errors, `${at}.nodeAffinityPolicy`, constraint.nodeAffinityPolicy, ['Honor', 'Ignore']);
    validateOptionalEnum(errors, `${at}.nodeTaintsPolicy`, constraint.nodeTaintsPolicy, ['Honor', 'Ignore']);
    if (constraint.matchLabelKeys?.length && selector === undefined)
      errors.push(fieldForbidden(`${at}.matchLabelKeys`, 'must not be specified when labelSelector is not set'));
    // the API server adds the pod's own value of each key (KEP-3243)
    const selected = new Set(
      selector?.matchExpressions?.filter(({ operator, values }) => !(operator === 'In' && values?.length === 1)).map(({ key }) => key),
    );
    for (const [j, key] of (constraint.matchLabelKeys ?? []).entries()) {
      validateQualifiedName(errors, `${at}.matchLabelKeys[${j}]`, key);
      if (selected.has(key) || Object.hasOwn(selector?.matchLabels ?? {}, key))
        errors.push(invalid(`${at}.matchLabelKeys[${j}]`, key, 'exists in both matchLabelKeys and labelSelector'));
    }
    validateLabelSelector(errors, `${at}.labelSelector`, selector);
  }
}
