import { duplicate, fieldForbidden, invalid, notSupported, required } from '../field-error.ts';
import type { ControllerRevision } from '../generated/types/apps-v1.ts';
import type { CertificateSigningRequest } from '../generated/types/certificates-v1.ts';
import type { LimitRange, ResourceQuota } from '../generated/types/core-v1.ts';
import type { RuntimeClass } from '../generated/types/node-v1.ts';
import type { PodDisruptionBudget } from '../generated/types/policy-v1.ts';
import type { PriorityClass } from '../generated/types/scheduling-v1.ts';
import { jsonEqual } from '../json.ts';
import { isPercent, isQualifiedName } from '../names.ts';
import { tolerations } from './affinity.ts';
import { dnsLabel, ifOneOf, immutable, invalidEach, nonNegative, qualifiedName, type Errors } from './checks.ts';
import { conditions, labelSelector } from './meta.ts';
import { containerRequirements, resourceQuantity } from './resources.ts';

/** A number of pods, or a share of all. */
function amount(errors: Errors, path: string, value: number | string | undefined): void {
  if (typeof value === 'string') {
    invalidEach(errors, path, value, isPercent(value));
    if (/^[0-9]+%$/.test(value) && Number(value.slice(0, -1)) > 100) errors.push(invalid(path, value, 'must not be greater than 100%'));
  } else nonNegative(errors, path, value);
}

export function disruptionBudget(errors: Errors, { spec = {} }: PodDisruptionBudget): void {
  const { minAvailable, maxUnavailable, selector, unhealthyPodEvictionPolicy } = spec;
  if (minAvailable !== undefined && maxUnavailable !== undefined)
    errors.push(invalid('spec', spec, 'minAvailable and maxUnavailable cannot be both set'));
  amount(errors, 'spec.minAvailable', minAvailable);
  amount(errors, 'spec.maxUnavailable', maxUnavailable);
  labelSelector(errors, 'spec.selector', selector);
  ifOneOf(errors, 'spec.unhealthyPodEvictionPolicy', unhealthyPodEvictionPolicy, ['AlwaysAllow', 'IfHealthyBudget']);
}

export function disruptionStatus(errors: Errors, { status }: PodDisruptionBudget): void {
  conditions(errors, 'status.conditions', status?.conditions ?? []);
  for (const key of ['disruptionsAllowed', 'currentHealthy', 'desiredHealthy', 'expectedPods'] as const)
    nonNegative(errors, `status.${key}`, status?.[key]);
}

const systemClasses: ReadonlyMap<string, number> = new Map([
  ['system-node-critical', 2_000_001_000],
  ['system-cluster-critical', 2_000_000_000],
]);
const highestUserPriority = 1_000_000_000;
export function priorityClass(errors: Errors, value: PriorityClass, old?: PriorityClass): void {
  if (old !== undefined) {
    if (value.value !== old.value) errors.push(fieldForbidden('value', 'may not be changed in an update.'));
    immutable(errors, 'preemptionPolicy', value.preemptionPolicy, old.preemptionPolicy);
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
  ifOneOf(errors, 'preemptionPolicy', value.preemptionPolicy, ['Never', 'PreemptLowerPriority']);
}

export function runtimeClass(errors: Errors, { handler = '', overhead, scheduling }: RuntimeClass, old?: RuntimeClass): void {
  if (old !== undefined) {
    immutable(errors, 'handler', handler, old.handler);
    return;
  }
  dnsLabel(errors, 'handler', handler);
  if (overhead?.podFixed !== undefined) containerRequirements(errors, 'overhead', { limits: overhead.podFixed }, new Set());
  for (const [key, value] of Object.entries(scheduling?.nodeSelector ?? {})) {
    qualifiedName(errors, 'scheduling.nodeSelector', key);
    if (value.length > 63) errors.push(invalid('scheduling.nodeSelector', value, 'must be no more than 63 characters'));
  }
  tolerations(errors, 'scheduling.tolerations', scheduling?.tolerations ?? []);
}

export function controllerRevision(errors: Errors, { data, revision }: ControllerRevision, old?: ControllerRevision): void {
  if (revision < 0) errors.push(invalid('revision', revision, 'must be greater than or equal to 0'));
  if (data === undefined) errors.push(required('data', 'data is mandatory'));
  if (old !== undefined) immutable(errors, 'data', data, old.data);
}

const scopes = [
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
export function resourceQuota(errors: Errors, { spec = {} }: ResourceQuota, old?: ResourceQuota): void {
  quantities(errors, 'spec.hard', spec.hard);
  const given = spec.scopes ?? [];
  for (const scope of given) {
    if (!scopes.includes(scope)) {
      errors.push(invalid('spec.scopes', given, 'unsupported scope'));
      continue;
    }
    for (const name of Object.keys(spec.hard ?? {}))
      if (scope === 'BestEffort' ? name !== 'pods' && name !== 'count/pods' : !podResources.test(name) && scope !== 'VolumeAttributesClass')
        errors.push(invalid('spec.scopes', given, 'unsupported scope applied to resource'));
  }
  if (
    (given.includes('BestEffort') && given.includes('NotBestEffort')) ||
    (given.includes('Terminating') && given.includes('NotTerminating'))
  )
    errors.push(invalid('spec.scopes', given, 'conflicting scopes'));
  for (const [i, { scopeName, operator, values = [] }] of (spec.scopeSelector?.matchExpressions ?? []).entries()) {
    const at = `spec.scopeSelector.matchExpressions[${i}]`;
    if (!scopes.includes(scopeName ?? '')) errors.push(invalid(`${at}.scopeName`, scopeName, 'unsupported scope'));
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
  const [now, before] = [new Set(given), new Set(old.spec?.scopes ?? [])];
  if (!jsonEqual([...now].sort(), [...before].sort())) errors.push(invalid('spec.scopes', given, 'field is immutable'));
}
export function quotaStatus(errors: Errors, { status = {} }: ResourceQuota): void {
  quantities(errors, 'status.hard', status.hard);
  quantities(errors, 'status.used', status.used);
}

/** What quotas without a domain in their name may be for, besides huge pages. */
const countable: ReadonlySet<string> = new Set([
  ...['cpu', 'memory', 'ephemeral-storage'].flatMap((name) => [name, `requests.${name}`, `limits.${name}`]),
  'requests.storage',
  ...['pods', 'resourcequotas', 'services', 'replicationcontrollers', 'secrets', 'persistentvolumeclaims', 'configmaps'],
  'services.nodeports',
  'services.loadbalancers',
]);
const hugePages = /^(?:requests\.)?hugepages-/;

function quantities(errors: Errors, path: string, list: Readonly<Record<string, string | number>> | undefined): void {
  for (const [name, quantity] of Object.entries(list ?? {})) {
    const faults = isQualifiedName(name);
    invalidEach(errors, `${path}[${name}]`, name, faults);
    if (faults.length === 0 && !name.includes('/') && !countable.has(name) && !hugePages.test(name))
      errors.push(invalid(`${path}[${name}]`, name, 'must be a standard resource for quota'));
    resourceQuantity(errors, `${path}[${name}]`, name, quantity as string);
  }
}

export function limitRangeNames(errors: Errors, { spec }: LimitRange): void {
  for (const [i, limit] of (spec?.limits ?? []).entries()) {
    const path = `spec.limits[${i}]`;
    qualifiedName(errors, `${path}.type`, limit.type ?? '');
    if (limit.type === 'PersistentVolumeClaim' && limit.min?.['storage'] === undefined && limit.max?.['storage'] === undefined)
      errors.push(required(`${path}.limits`, 'either minimum or maximum storage value is required, but neither was provided'));
    for (const key of ['max', 'min', 'default', 'defaultRequest', 'maxLimitRequestRatio'] as const)
      for (const name of Object.keys(limit[key] ?? {})) invalidEach(errors, `${path}.${key}[${name}]`, name, isQualifiedName(name));
  }
}

const signer = /^[^/]+\/.+$/;
export function signingRequest(errors: Errors, { spec }: CertificateSigningRequest, old?: CertificateSigningRequest): void {
  const { request = '', signerName = '', usages = [], expirationSeconds } = spec ?? {};
  if (old === undefined) {
    const pem = /-----BEGIN ([A-Z ]+)-----/.exec(Buffer.from(request, 'base64').toString('latin1'));
    if (pem?.[1] !== 'CERTIFICATE REQUEST' && pem?.[1] !== 'NEW CERTIFICATE REQUEST')
      errors.push(invalid('spec.request', request, 'PEM block type must be CERTIFICATE REQUEST'));
    if (usages.length === 0) errors.push(required('spec.usages'));
  }
  if (signerName === '') errors.push(required('spec.signerName'));
  else if (!signer.test(signerName))
    errors.push(invalid('spec.signerName', signerName, "must be a fully qualified domain and path of the form 'example.com/signer-name'"));
  else if (signerName.split('/')[0]?.includes('.') !== true)
    errors.push(invalid('spec.signerName', signerName, 'should be a domain with at least two segments separated by dots'));
  for (const [i, usage] of usages.entries()) if (usages.indexOf(usage) < i) errors.push(duplicate(`spec.usages[${i}]`, usage));
  if (expirationSeconds !== undefined && expirationSeconds < 600)
    errors.push(invalid('spec.expirationSeconds', expirationSeconds, 'may not specify a duration less than 600 seconds (10 minutes)'));
}

/** Of requests whose status or approval is written: what is decided stays so. */
export function signingStatus(errors: Errors, { status }: CertificateSigningRequest, old?: CertificateSigningRequest): void {
  const list = status?.conditions ?? [];
  const types = new Set<string>();
  for (const [i, { type = '', status: is }] of list.entries()) {
    const at = `status.conditions[${i}]`;
    if (type === '') errors.push(required(`${at}.type`));
    if (types.has(type)) errors.push(duplicate(`${at}.type`, type));
    types.add(type);
    if ((type === 'Approved' && types.has('Denied')) || (type === 'Denied' && types.has('Approved')))
      errors.push(invalid(`${at}.type`, type, 'Approved and Denied conditions are mutually exclusive'));
    if (['Approved', 'Denied', 'Failed'].includes(type)) {
      if (is !== 'True') errors.push(notSupported(`${at}.status`, is ?? '', ['True']));
    } else if (!['True', 'False', 'Unknown'].includes(is ?? ''))
      errors.push(notSupported(`${at}.status`, is ?? '', ['False', 'True', 'Unknown']));
  }
  for (const type of ['Approved', 'Denied', 'Failed'])
    if (old?.status?.conditions?.some((condition) => condition.type === type) === true && !types.has(type))
      errors.push(fieldForbidden('status.conditions', `updates may not remove a condition of type ${JSON.stringify(type)}`));
  if (old?.status?.certificate && status?.certificate !== old.status.certificate)
    errors.push(invalid('status.certificate', status?.certificate ?? '', 'field is immutable'));
}
