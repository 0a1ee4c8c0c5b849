import { fieldForbidden, invalid, required } from '../../field/field-error.ts';
import type { ControllerRevision } from '../../generated/types/apps-v1.ts';
import type { LimitRange, ResourceQuota } from '../../generated/types/core-v1.ts';
import type { RuntimeClass } from '../../generated/types/node-v1.ts';
import type { PodDisruptionBudget } from '../../generated/types/policy-v1.ts';
import type { PriorityClass } from '../../generated/types/scheduling-v1.ts';
import { jsonEqual } from '../../json/json.ts';
import { isPercent, isQualifiedName } from '../../values/names.ts';
import { validateTolerations } from './core/affinity.ts';
import {
  validateDNSLabel,
  validateOptionalEnum,
  validateImmutable,
  addInvalid,
  validateNonNegative,
  validateQualifiedName,
  type Errors,
} from './checks.ts';
import { validateConditions, validateLabelSelector } from '../meta.ts';
import { validateContainerRequirements, validateResourceQuantity } from '../resources.ts';

/** A number of pods or a percentage. */
function validateAmount(errors: Errors, path: string, value: number | string | undefined): void {
  if (typeof value === 'string') {
    addInvalid(errors, path, value, isPercent(value));
    if (/^[0-9]+%$/.test(value) && Number(value.slice(0, -1)) > 100) errors.push(invalid(path, value, 'must not be greater than 100%'));
  } else validateNonNegative(errors, path, value);
}

export function validatePodDisruptionBudget(errors: Errors, { spec = {} }: PodDisruptionBudget): void {
  const { minAvailable, maxUnavailable, selector, unhealthyPodEvictionPolicy } = spec;
  if (minAvailable !== undefined && maxUnavailable !== undefined)
    errors.push(invalid('spec', spec, 'minAvailable and maxUnavailable cannot be both set'));
  validateAmount(errors, 'spec.minAvailable', minAvailable);
  validateAmount(errors, 'spec.maxUnavailable', maxUnavailable);
  validateLabelSelector(errors, 'spec.selector', selector);
  validateOptionalEnum(errors, 'spec.unhealthyPodEvictionPolicy', unhealthyPodEvictionPolicy, ['AlwaysAllow', 'IfHealthyBudget']);
}

export function validatePodDisruptionBudgetStatus(errors: Errors, { status }: PodDisruptionBudget): void {
  validateConditions(errors, 'status.conditions', status?.conditions ?? []);
  for (const key of ['disruptionsAllowed', 'currentHealthy', 'desiredHealthy', 'expectedPods'] as const)
    validateNonNegative(errors, `status.${key}`, status?.[key]);
}

const systemClasses: ReadonlyMap<string, number> = new Map([
  ['system-node-critical', 2_000_001_000],
  ['system-cluster-critical', 2_000_000_000],
]);
const highestUserPriority = 1_000_000_000;
export function validatePriorityClass(errors: Errors, value: PriorityClass, old?: PriorityClass): void {
  if (old !== undefined) {
    if (value.value !== old.value) errors.push(fieldForbidden('value', 'may not be changed in an update.'));
    validateImmutable(errors, 'preemptionPolicy', value.preemptionPolicy, old.preemptionPolicy);
    return;
  }
  const name = value.metadata?.name ?? '';
  if (name.startsWith('system-')) {
    const known = systemClasses.get(name);
    const why =
      known === undefined
        ? `${name} is not a known system priority class`
        : known !== value.value
          ? `value of ${name} PriorityClass must be ${known}`
          : value.globalDefault === true
            ? `globalDefault of ${name} PriorityClass must be false`
            : undefined;
    if (why !== undefined)
      errors.push(
        fieldForbidden('metadata.name', `priority class names with 'system-' prefix are reserved for system use only. error: ${why}`),
      );
  } else if ((value.value ?? 0) > highestUserPriority)
    errors.push(fieldForbidden('value', `maximum allowed value of a user defined priority is ${highestUserPriority}`));
  validateOptionalEnum(errors, 'preemptionPolicy', value.preemptionPolicy, ['Never', 'PreemptLowerPriority']);
}

export function validateRuntimeClass(errors: Errors, { handler = '', overhead, scheduling }: RuntimeClass, old?: RuntimeClass): void {
  if (old !== undefined) {
    validateImmutable(errors, 'handler', handler, old.handler);
    return;
  }
  validateDNSLabel(errors, 'handler', handler);
  if (overhead?.podFixed !== undefined) validateContainerRequirements(errors, 'overhead', { limits: overhead.podFixed }, new Set());
  for (const [key, value] of Object.entries(scheduling?.nodeSelector ?? {})) {
    validateQualifiedName(errors, 'scheduling.nodeSelector', key);
    if (value.length > 63) errors.push(invalid('scheduling.nodeSelector', value, 'must be no more than 63 characters'));
  }
  validateTolerations(errors, 'scheduling.tolerations', scheduling?.tolerations ?? []);
}

export function validateControllerRevision(errors: Errors, { data, revision }: ControllerRevision, old?: ControllerRevision): void {
  if (revision < 0) errors.push(invalid('revision', revision, 'must be greater than or equal to 0'));
  if (data === undefined) errors.push(required('data', 'data is mandatory'));
  if (old !== undefined) validateImmutable(errors, 'data', data, old.data);
}

/** Quota scopes of Kubernetes 1.36. */
const supportedScopes = [
  'BestEffort',
  'CrossNamespacePodAffinity',
  'NotBestEffort',
  'NotTerminating',
  'PriorityClass',
  'Terminating',
  'VolumeAttributesClass',
];
const podResources =
  /^(pods|cpu|memory|ephemeral-storage|(requests|limits)\.(cpu|memory|ephemeral-storage)|count\/pods|(requests\.)?hugepages-.*)$/;
export function validateResourceQuota(errors: Errors, { spec = {} }: ResourceQuota, old?: ResourceQuota): void {
  validateQuantities(errors, 'spec.hard', spec.hard);
  const scopes = spec.scopes ?? [];
  for (const scope of scopes) {
    if (!supportedScopes.includes(scope)) {
      errors.push(invalid('spec.scopes', scopes, 'unsupported scope'));
      continue;
    }
    for (const name of Object.keys(spec.hard ?? {}))
      if (scope === 'BestEffort' ? name !== 'pods' && name !== 'count/pods' : !podResources.test(name) && scope !== 'VolumeAttributesClass')
        errors.push(invalid('spec.scopes', scopes, 'unsupported scope applied to resource'));
  }
  if (
    (scopes.includes('BestEffort') && scopes.includes('NotBestEffort')) ||
    (scopes.includes('Terminating') && scopes.includes('NotTerminating'))
  )
    errors.push(invalid('spec.scopes', scopes, 'conflicting scopes'));
  for (const [i, { scopeName, operator, values = [] }] of (spec.scopeSelector?.matchExpressions ?? []).entries()) {
    const at = `spec.scopeSelector.matchExpressions[${i}]`;
    if (!supportedScopes.includes(scopeName ?? '')) errors.push(invalid(`${at}.scopeName`, scopeName, 'unsupported scope'));
    if (scopeName !== 'PriorityClass' && scopeName !== 'VolumeAttributesClass' && operator !== 'Exists')
      errors.push(
        invalid(
          `${at}.operator`,
          operator,
          `must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity`,
        ),
      );
    if (operator === 'In' || operator === 'NotIn') {
      if (values.length === 0)
        errors.push(required(`${at}.values`, "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"));
    } else if (operator === 'Exists' || operator === 'DoesNotExist') {
      if (values.length > 0)
        errors.push(invalid(`${at}.values`, values, "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector"));
    } else errors.push(invalid(`${at}.operator`, operator, 'not a valid selector operator'));
  }
  if (old === undefined) return;
  const [now, before] = [new Set(scopes), new Set(old.spec?.scopes ?? [])];
  if (!jsonEqual([...now].sort(), [...before].sort())) errors.push(invalid('spec.scopes', scopes, 'field is immutable'));
}
export function validateResourceQuotaStatus(errors: Errors, { status = {} }: ResourceQuota): void {
  validateQuantities(errors, 'status.hard', status.hard);
  validateQuantities(errors, 'status.used', status.used);
}

/** Quota resource names without a domain, besides huge pages. */
const countable: ReadonlySet<string> = new Set([
  ...['cpu', 'memory', 'ephemeral-storage'].flatMap((name) => [name, `requests.${name}`, `limits.${name}`]),
  'requests.storage',
  ...['pods', 'resourcequotas', 'services', 'replicationcontrollers', 'secrets', 'persistentvolumeclaims', 'configmaps'],
  'services.nodeports',
  'services.loadbalancers',
]);
const hugePages = /^(?:requests\.)?hugepages-/;

function validateQuantities(errors: Errors, path: string, list: Readonly<Record<string, string | number>> | undefined): void {
  for (const [name, quantity] of Object.entries(list ?? {})) {
    const faults = isQualifiedName(name);
    addInvalid(errors, `${path}[${name}]`, name, faults);
    if (faults.length === 0 && !name.includes('/') && !countable.has(name) && !hugePages.test(name))
      errors.push(invalid(`${path}[${name}]`, name, 'must be a standard resource for quota'));
    validateResourceQuantity(errors, `${path}[${name}]`, name, quantity as string);
  }
}

export function validateLimitRangeNames(errors: Errors, { spec }: LimitRange): void {
  for (const [i, limit] of (spec?.limits ?? []).entries()) {
    const path = `spec.limits[${i}]`;
    validateQualifiedName(errors, `${path}.type`, limit.type ?? '');
    if (limit.type === 'PersistentVolumeClaim' && limit.min?.['storage'] === undefined && limit.max?.['storage'] === undefined)
      errors.push(required(`${path}.limits`, 'either minimum or maximum storage value is required, but neither was provided'));
    for (const key of ['max', 'min', 'default', 'defaultRequest', 'maxLimitRequestRatio'] as const)
      for (const name of Object.keys(limit[key] ?? {})) addInvalid(errors, `${path}.${key}[${name}]`, name, isQualifiedName(name));
  }
}
