import type { PersistentVolumeClaim, Pod, ResourceQuota, Service } from '../generated/types/core-v1.ts';
import type { Quantity } from '../generated/types/meta-v1.ts';
import type { ResourceClaim } from '../generated/types/resource-v1.ts';
import type { KubeObject } from '../object.ts';
import { podResources, type Resources } from '../component-helpers/pod-resources.ts';
import { qosClass } from '../component-helpers/qos-class.ts';
import { withResizedRequests } from '../component-helpers/resized-requests.ts';
import { addDeviceUsage, countsExtendedResource, deviceClassSuffix, type DeviceQuotaContext } from './device-usage.ts';
import { addQuantity, ParsedQuantity, subQuantity, zeroQuantity } from '../values/quantity.ts';
import { parseTime } from '../values/time.ts';

const one = addQuantity(1, 0);
const classSuffix = '.storageclass.storage.k8s.io/';
const resourceClaims = 'resourceclaims.resource.k8s.io';
/** Resources whose objects also count under their unprefixed name, such as `pods` beside `count/pods`. */
const plain: ReadonlySet<string> = new Set([
  'pods',
  'services',
  'persistentvolumeclaims',
  'replicationcontrollers',
  'resourcequotas',
  'secrets',
  'configmaps',
]);

/** Resources with an evaluator of their own, whose usage can change during the life of an object. */
export const evaluatedResources: ReadonlySet<string> = new Set(['pods', 'services', 'persistentvolumeclaims', resourceClaims]);

export interface QuotaUsageOptions {
  /** The time in milliseconds since the epoch. */
  readonly now: number;
  /** What the usage of ResourceClaims depends on. Without it, only device classes and their implicit extended resources are counted. */
  readonly devices?: DeviceQuotaContext | undefined;
}

/**
 * Returns the quota usage of an object by quota resource name (Evaluator.Usage upstream). `resource` is a group resource (`deployments.apps`).
 * https://kubernetes.io/docs/concepts/policy/resource-quotas/
 */
export function quotaUsage(resource: string, object: KubeObject, { now, devices }: QuotaUsageOptions): Resources {
  const used = new Map<string, ParsedQuantity>([[`count/${resource}`, one]]);
  if (resource === 'pods') podUsage(object, now, used);
  else if (plain.has(resource)) used.set(resource, one);
  if (resource === 'services') serviceUsage(object, used);
  if (resource === 'persistentvolumeclaims') claimUsage(object, used);
  if (resource === resourceClaims) addDeviceUsage(object as ResourceClaim, used, devices);
  return used;
}

/** Returns the group resources whose objects a quota resource name counts: none for an unknown name, two for extended resources. */
export function resourcesOfQuotaName(name: string): readonly string[] {
  if (name.startsWith('count/')) return [name.slice('count/'.length)];
  if (plain.has(name)) return [name];
  if (name === 'services.loadbalancers' || name === 'services.nodeports') return ['services'];
  if (name === 'requests.storage' || name.includes(classSuffix)) return ['persistentvolumeclaims'];
  if (name.endsWith(deviceClassSuffix)) return [resourceClaims];
  if (countsExtendedResource(name)) return ['pods', resourceClaims];
  const amount = name.replace(/^(requests|limits)\./, '');
  const compute = amount === 'cpu' || amount === 'memory' || amount === 'ephemeral-storage' || amount.startsWith('hugepages-');
  return compute ? ['pods'] : [];
}

/** Returns true if a pod has terminated, or should have by now, and so uses no compute resources. */
function isNotCharged({ status, metadata }: Pod, now: number): boolean {
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return true;
  const deletion = parseTime(metadata?.deletionTimestamp ?? '');
  return deletion !== undefined && metadata?.deletionGracePeriodSeconds !== undefined && now > deletion;
}

function podUsage(pod: Pod, now: number, used: Map<string, ParsedQuantity>): void {
  if (isNotCharged(pod, now)) return;
  used.set('pods', one);
  // a pod that is being resized counts with the larger of its requests and its allocated resources (KEP-1287)
  for (const [name, amount] of podResources(withResizedRequests(pod), 'requests')) {
    used.set(`requests.${name}`, amount);
    if (!name.includes('/')) used.set(name, amount);
  }
  for (const [name, amount] of podResources(pod, 'limits'))
    if (name === 'cpu' || name === 'memory' || name === 'ephemeral-storage') used.set(`limits.${name}`, amount);
}

function serviceUsage({ spec }: Service, used: Map<string, ParsedQuantity>): void {
  const ports = spec?.ports ?? [];
  const counted =
    spec?.type === 'NodePort'
      ? ports.length
      : spec?.type === 'LoadBalancer'
        ? spec.allocateLoadBalancerNodePorts === false
          ? ports.filter(({ nodePort }) => (nodePort ?? 0) !== 0).length
          : ports.length
        : 0;
  if (spec?.type === 'LoadBalancer') used.set('services.loadbalancers', one);
  if (counted > 0) used.set('services.nodeports', addQuantity(counted, 0));
}

function claimUsage({ spec, status, metadata }: PersistentVolumeClaim, used: Map<string, ParsedQuantity>): void {
  const storageClass = metadata?.annotations?.['volume.beta.kubernetes.io/storage-class'] ?? spec?.storageClassName ?? '';
  if (storageClass !== '') used.set(`${storageClass}${classSuffix}persistentvolumeclaims`, one);
  const asked = spec?.resources?.requests?.['storage'];
  if (asked === undefined) return;
  let amount = wholeBytes(asked);
  // a volume that is being shrunk still counts with its allocated size (KEP-1790)
  const allocated = status?.allocatedResources?.['storage'];
  if (allocated !== undefined && addQuantity(allocated, 0).compare(amount) > 0) amount = wholeBytes(allocated);
  used.set('requests.storage', amount);
  if (storageClass !== '') used.set(`${storageClass}${classSuffix}requests.storage`, amount);
}

/** Returns the amount of storage rounded up to whole bytes, as the status of a quota requires. */
function wholeBytes(amount: Quantity): ParsedQuantity {
  const exact = addQuantity(amount, 0);
  return exact.isInteger ? exact : ParsedQuantity.ofNanos(exact.scaledBig(1) * 1_000_000_000n, exact.format);
}

export const isBestEffort = ({ spec, status }: Pod): boolean => (status?.qosClass ?? qosClass(spec)) === 'BestEffort';

function crossesNamespaces({ spec }: Pod): boolean {
  const { podAffinity, podAntiAffinity } = spec?.affinity ?? {};
  return [podAffinity, podAntiAffinity].some((affinity) =>
    [
      ...(affinity?.requiredDuringSchedulingIgnoredDuringExecution ?? []),
      ...(affinity?.preferredDuringSchedulingIgnoredDuringExecution ?? []).map(({ podAffinityTerm }) => podAffinityTerm),
    ].some((term) => (term.namespaces?.length ?? 0) > 0 || term.namespaceSelector !== undefined),
  );
}

/** A scope of a quota with the operators of selectors. */
export interface ScopeSelectorRequirement {
  readonly scopeName: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

/** Returns true if an object is in the scope. Only pods and claims are in scopes. */
export function isInScope(resource: string, object: KubeObject, { scopeName, operator, values = [] }: ScopeSelectorRequirement): boolean {
  if (resource === 'pods') return inScope(object, scopeName, operator, values);
  return resource === 'persistentvolumeclaims' && scopeName === 'VolumeAttributesClass' && usesClass(object, operator, values);
}

/** KEP-3751: compares the requested VolumeAttributesClass, the current one of the volume, and the target of a modification. */
function usesClass({ spec, status }: PersistentVolumeClaim, operator: string, values: readonly string[]): boolean {
  const names = [
    spec?.volumeAttributesClassName,
    status?.currentVolumeAttributesClassName,
    status?.modifyVolumeStatus?.targetVolumeAttributesClassName,
  ].filter((name) => name !== undefined && name !== '');
  return (names.length === 0 ? [''] : names).some((name) => selects(name ?? '', operator, values));
}

function selects(name: string, operator: string, values: readonly string[]): boolean {
  if (operator === 'Exists') return name !== '';
  if (operator === 'DoesNotExist') return name === '';
  return operator === 'In' ? name !== '' && values.includes(name) : !values.includes(name);
}

function inScope(pod: Pod, scope: string, operator: string, values: readonly string[]): boolean {
  switch (scope) {
    case 'Terminating':
      return pod.spec?.activeDeadlineSeconds !== undefined;
    case 'NotTerminating':
      return pod.spec?.activeDeadlineSeconds === undefined;
    case 'BestEffort':
      return isBestEffort(pod);
    case 'NotBestEffort':
      return !isBestEffort(pod);
    case 'CrossNamespacePodAffinity':
      return crossesNamespaces(pod);
    case 'PriorityClass':
      return selects(pod.spec?.priorityClassName ?? '', operator, values);
    default:
      return false;
  }
}

/** Returns true if all scopes of a quota match an object. Pods have scopes, claims only the one of their class. */
export function quotaMatches({ spec }: ResourceQuota, resource: string, object: KubeObject): boolean {
  return scopeSelectorsOf(spec).every((scope) => isInScope(resource, object, scope));
}

export const scopeSelectorsOf = (spec: ResourceQuota['spec']): readonly ScopeSelectorRequirement[] => [
  ...(spec?.scopes ?? []).map((scopeName) => ({ scopeName, operator: 'Exists' })),
  ...(spec?.scopeSelector?.matchExpressions ?? []),
];

/** Returns the sorted names of a quota that objects of a resource count for, as far as the controller has calculated the quota. */
export const calculatedResources = ({ status }: ResourceQuota, resource: string): readonly string[] =>
  Object.keys(status?.hard ?? {})
    .filter((name) => resourcesOfQuotaName(name).includes(resource))
    .sort();

/** Returns the part of `used` that a quota limits (quota.Mask upstream). */
export function maskResources(quota: ResourceQuota, used: Resources): Map<string, ParsedQuantity> {
  const hard = quota.spec?.hard ?? {};
  return new Map([...used].filter(([name]) => hard[name] !== undefined));
}

export function addResources(a: Resources, b: Resources): Map<string, ParsedQuantity> {
  const sum = new Map(a);
  for (const [name, amount] of b) sum.set(name, addQuantity(sum.get(name) ?? zeroQuantity, amount));
  return sum;
}

/** Returns by how much `next` exceeds `old`, per resource; resources that do not grow are omitted. */
export function positiveDelta(next: Resources, old: Resources): Map<string, ParsedQuantity> {
  const more = new Map<string, ParsedQuantity>();
  for (const [name, amount] of next) {
    const delta = subQuantity(amount, old.get(name) ?? zeroQuantity);
    if (delta.compare(zeroQuantity) > 0) more.set(name, delta);
  }
  return more;
}
