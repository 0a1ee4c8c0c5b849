import { fieldForbidden, invalid, notSupported, required } from '../../field/field-error.ts';
import type { HorizontalPodAutoscaler as V1 } from '../../generated/types/autoscaling-v1.ts';
import type {
  CrossVersionObjectReference,
  HorizontalPodAutoscaler,
  HPAScalingRules,
  MetricIdentifier,
  MetricSpec,
  MetricTarget,
} from '../../generated/types/autoscaling-v2.ts';
import { isPathSegmentName } from '../../values/names.ts';
import { compareQuantity, parseQuantity } from '../../values/quantity.ts';
import { validateOptionalEnum, addInvalid, isNegative, validateNonNegative, type Errors } from './checks.ts';
import { validateLabelSelector } from '../meta.ts';

const positive = 'must be greater than 0';
const sources = {
  ContainerResource: 'containerResource',
  External: 'external',
  Object: 'object',
  Pods: 'pods',
  Resource: 'resource',
} as const;

/** The path of a reference, and the exceptions for its apiVersion. */
interface ReferenceContext {
  readonly path: string;
  /** True if an update does not change the reference: its apiVersion may be invalid. */
  readonly isUnchanged?: boolean;
  /** True if the reference may name a kind of the core group. */
  readonly allowCoreGroup: boolean;
}

function validateReference(
  errors: Errors,
  { path, isUnchanged = false, allowCoreGroup }: ReferenceContext,
  { apiVersion = '', kind = '', name = '' }: Partial<CrossVersionObjectReference>,
): void {
  if (kind === '') errors.push(required(`${path}.kind`));
  else addInvalid(errors, `${path}.kind`, kind, isPathSegmentName(kind));
  if (name === '') errors.push(required(`${path}.name`));
  else addInvalid(errors, `${path}.name`, name, isPathSegmentName(name));
  if (isUnchanged) return;
  if (apiVersion.split('/').length > 2)
    errors.push(invalid(`${path}.apiVersion`, apiVersion, `unexpected GroupVersion string: ${apiVersion}`));
  else if (!allowCoreGroup && (!apiVersion.includes('/') || apiVersion.startsWith('/')))
    errors.push(invalid(`${path}.apiVersion`, apiVersion, 'apiVersion must specify API group'));
}

/** Validates the reference to the scaled object. ReplicationController is the only scalable kind of the core group. */
function validateScaleTarget(
  errors: Errors,
  target: Partial<CrossVersionObjectReference> = {},
  old: Partial<CrossVersionObjectReference> | undefined,
): void {
  const isUnchanged = old !== undefined && old.apiVersion === target.apiVersion && old.kind === target.kind;
  const allowCoreGroup = target.kind === 'ReplicationController';
  validateReference(errors, { path: 'spec.scaleTargetRef', isUnchanged, allowCoreGroup }, target);
}

function validateBounds(errors: Errors, minReplicas: number | undefined, maxReplicas = 0): void {
  if (minReplicas !== undefined && minReplicas < 1)
    errors.push(invalid('spec.minReplicas', minReplicas, 'must be greater than or equal to 1'));
  if (maxReplicas < 1) errors.push(invalid('spec.maxReplicas', maxReplicas, positive));
  if (minReplicas !== undefined && maxReplicas < minReplicas)
    errors.push(invalid('spec.maxReplicas', maxReplicas, 'must be greater than or equal to `minReplicas`'));
}

function validateIdentifier(errors: Errors, path: string, { name = '', selector }: Partial<MetricIdentifier>): void {
  if (name === '') errors.push(required(`${path}.name`, 'must specify a metric name'));
  else addInvalid(errors, `${path}.name`, name, isPathSegmentName(name));
  validateLabelSelector(errors, `${path}.selector`, selector);
}

function validateTarget(errors: Errors, path: string, { type = '', value, averageValue, averageUtilization }: Partial<MetricTarget>): void {
  if (type === '') errors.push(required(`${path}.type`, 'must specify a metric target type'));
  else if (!['AverageValue', 'Utilization', 'Value'].includes(type))
    errors.push(invalid(`${path}.type`, type, 'must be either Utilization, Value, or AverageValue'));
  if (value !== undefined && compareQuantity(value, '0') <= 0) errors.push(invalid(`${path}.value`, value, 'must be positive'));
  if (averageValue !== undefined && compareQuantity(averageValue, '0') <= 0)
    errors.push(invalid(`${path}.averageValue`, averageValue, 'must be positive'));
  if (averageUtilization !== undefined && averageUtilization < 1)
    errors.push(invalid(`${path}.averageUtilization`, averageUtilization, positive));
}

function validateResourceTarget(errors: Errors, path: string, name: string, wanted: Partial<MetricTarget>): void {
  if (name === '') errors.push(required(`${path}.name`, 'must specify a resource name'));
  const { averageUtilization, averageValue, value } = wanted;
  const at = `${path}.target`;
  validateTarget(errors, at, wanted);
  if (averageUtilization === undefined && averageValue === undefined)
    errors.push(required(`${at}.averageUtilization`, 'must set either a target raw value or a target utilization'));
  if (averageUtilization !== undefined && averageValue !== undefined)
    errors.push(fieldForbidden(`${at}.averageValue`, 'may not set both a target raw value and a target utilization'));
  if (value !== undefined) errors.push(fieldForbidden(`${at}.value`, 'must not be set for resource metrics'));
}

/** The metric sources in the order in which upstream validates them. Only the first one that is set is validated. */
const sourceOrder = ['object', 'external', 'pods', 'resource', 'containerResource'] as const;

function validateMetric(errors: Errors, path: string, spec: MetricSpec): void {
  const { type = '' } = spec;
  const expected = Object.hasOwn(sources, type) ? sources[type as keyof typeof sources] : undefined;
  const unsupported = notSupported(`${path}.type`, type, Object.keys(sources));
  if (type === '') errors.push(required(`${path}.type`, 'must specify a metric source type'));
  if (expected === undefined) errors.push(unsupported);
  const present = sourceOrder.filter((name) => spec[name] !== undefined);
  if (present[0] !== undefined) validateSource(errors, `${path}.${present[0]}`, { type, [present[0]]: spec[present[0]] });
  // upstream reports an unknown type twice
  if (expected === undefined) errors.push(unsupported);
  else if (spec[expected] === undefined)
    errors.push(required(`${path}.${expected}`, 'must populate information for the given metric source'));
  if (present.length === 1) return;
  for (const other of present)
    if (other !== expected) errors.push(fieldForbidden(`${path}.${other}`, 'must populate the given metric source only'));
}

function validateSource(errors: Errors, at: string, spec: MetricSpec): void {
  const { object, external, pods, resource, containerResource } = spec;
  if (object !== undefined) {
    validateReference(errors, { path: `${at}.describedObject`, allowCoreGroup: true }, object.describedObject ?? {});
    validateIdentifier(errors, `${at}.metric`, object.metric ?? {});
    validateTarget(errors, `${at}.target`, object.target ?? {});
    if (object.target?.value === undefined && object.target?.averageValue === undefined)
      errors.push(required(`${at}.target.averageValue`, 'must set either a target value or averageValue'));
  } else if (external !== undefined) {
    validateIdentifier(errors, `${at}.metric`, external.metric ?? {});
    validateTarget(errors, `${at}.target`, external.target ?? {});
    const { value, averageValue } = external.target ?? {};
    if (value === undefined && averageValue === undefined)
      errors.push(required(`${at}.target.averageValue`, 'must set either a target value for metric or a per-pod target'));
    if (value !== undefined && averageValue !== undefined)
      errors.push(fieldForbidden(`${at}.target.value`, 'may not set both a target value for metric and a per-pod target'));
  } else if (pods !== undefined) {
    validateIdentifier(errors, `${at}.metric`, pods.metric ?? {});
    validateTarget(errors, `${at}.target`, pods.target ?? {});
    if (pods.target?.averageValue === undefined)
      errors.push(required(`${at}.target.averageValue`, 'must specify a positive target averageValue'));
  } else if (resource !== undefined) {
    validateResourceTarget(errors, at, resource.name ?? '', resource.target ?? {});
  } else if (containerResource !== undefined) {
    if (!containerResource.container) errors.push(required(`${at}.container`, 'must specify a container'));
    validateResourceTarget(errors, at, containerResource.name ?? '', containerResource.target ?? {});
  }
}

function validateScaling(errors: Errors, path: string, rules: HPAScalingRules | undefined): void {
  if (rules === undefined) return;
  const { stabilizationWindowSeconds: window, selectPolicy, policies = [], tolerance } = rules;
  if (window !== undefined && window < 0)
    errors.push(invalid(`${path}.stabilizationWindowSeconds`, window, 'must be greater than or equal to zero'));
  if (window !== undefined && window > 3600)
    errors.push(invalid(`${path}.stabilizationWindowSeconds`, window, 'must be less than or equal to 3600'));
  validateOptionalEnum(errors, `${path}.selectPolicy`, selectPolicy, ['Disabled', 'Max', 'Min']);
  if (policies.length === 0 && selectPolicy !== 'Disabled') errors.push(required(`${path}.policies`, 'must specify at least one Policy'));
  for (const [i, { type, value = 0, periodSeconds = 0 }] of policies.entries()) {
    const at = `${path}.policies[${i}]`;
    validateOptionalEnum(errors, `${at}.type`, type ?? '', ['Percent', 'Pods']);
    if (value <= 0) errors.push(invalid(`${at}.value`, value, 'must be greater than zero'));
    if (periodSeconds <= 0) errors.push(invalid(`${at}.periodSeconds`, periodSeconds, 'must be greater than zero'));
    if (periodSeconds > 1800) errors.push(invalid(`${at}.periodSeconds`, periodSeconds, 'must be less than or equal to 1800'));
  }
  if (tolerance !== undefined && compareQuantity(tolerance, '0') < 0)
    errors.push(invalid(`${path}.tolerance`, parseQuantity(tolerance).toString(), isNegative));
}

export function validateHorizontalPodAutoscaler(errors: Errors, { spec }: HorizontalPodAutoscaler, old?: HorizontalPodAutoscaler): void {
  validateBounds(errors, spec?.minReplicas, spec?.maxReplicas);
  validateScaleTarget(errors, spec?.scaleTargetRef, old?.spec?.scaleTargetRef);
  for (const [i, entry] of (spec?.metrics ?? []).entries()) validateMetric(errors, `spec.metrics[${i}]`, entry);
  validateScaling(errors, 'spec.behavior.scaleUp', spec?.behavior?.scaleUp);
  validateScaling(errors, 'spec.behavior.scaleDown', spec?.behavior?.scaleDown);
}

/** Errors name the fields of v2, because upstream validates the internal version, which has v2's fields. */
export function validateHorizontalPodAutoscalerV1(errors: Errors, { spec }: V1, old?: V1): void {
  validateBounds(errors, spec?.minReplicas, spec?.maxReplicas);
  validateScaleTarget(errors, spec?.scaleTargetRef, old?.spec?.scaleTargetRef);
  const percentage = spec?.targetCPUUtilizationPercentage;
  if (percentage !== undefined && percentage < 1)
    errors.push(invalid('spec.metrics[0].resource.target.averageUtilization', percentage, positive));
}

export function validateHorizontalPodAutoscalerStatus(errors: Errors, { status }: HorizontalPodAutoscaler | V1): void {
  validateNonNegative(errors, 'status.currentReplicas', status?.currentReplicas);
  validateNonNegative(errors, 'status.desiredReplicas', status?.desiredReplicas);
}
