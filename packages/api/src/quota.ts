import type { PersistentVolumeClaim, Pod, ResourceQuota, Service } from './generated/types/core-v1.ts';
import type { KubeObject } from './object.ts';
import { podAmounts, type Amounts } from './pod-resources.ts';
import { addQuantity, subQuantity, zero, type Amount } from './quantity.ts';
import { parseTime } from './time.ts';

const one = addQuantity(1, 0);
const classSuffix = '.storageclass.storage.k8s.io/';
/** Resources whose objects are counted under their plain name, too. */
const plain: ReadonlySet<string> = new Set([
  'pods',
  'services',
  'persistentvolumeclaims',
  'replicationcontrollers',
  'resourcequotas',
  'secrets',
  'configmaps',
]);

/** Resources whose objects count for more than one each, and so may come to count for more while they live. */
export const measured: ReadonlySet<string> = new Set(['pods', 'services', 'persistentvolumeclaims']);

/**
 * What an object uses of quotas, by the names that quotas have for it. `resource` is a group resource (`deployments.apps`); `now` in milliseconds
 * since the epoch. https://kubernetes.io/docs/concepts/policy/resource-quotas/
 */
export function quotaUsage(resource: string, object: KubeObject, now: number): Amounts {
  const used = new Map<string, Amount>([[`count/${resource}`, one]]);
  if (resource === 'pods') podUsage(object, now, used);
  else if (plain.has(resource)) used.set(resource, one);
  if (resource === 'services') serviceUsage(object, used);
  if (resource === 'persistentvolumeclaims') claimUsage(object, used);
  return used;
}

/** The group resource whose objects a name of a quota is about; undefined when nothing is known of that name. */
export function quotaSubject(name: string): string | undefined {
  if (name.startsWith('count/')) return name.slice('count/'.length);
  if (plain.has(name)) return name;
  if (name === 'services.loadbalancers' || name === 'services.nodeports') return 'services';
  if (name === 'requests.storage' || name.includes(classSuffix)) return 'persistentvolumeclaims';
  const amount = name.replace(/^(requests|limits)\./, '');
  const compute = amount === 'cpu' || amount === 'memory' || amount === 'ephemeral-storage' || amount.startsWith('hugepages-');
  return compute || (name.startsWith('requests.') && amount.includes('/')) ? 'pods' : undefined;
}

/** A pod that has ended, or should have by now, uses nothing of its node. */
function isOver({ status, metadata }: Pod, now: number): boolean {
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return true;
  const deletion = parseTime(metadata?.deletionTimestamp ?? '');
  return deletion !== undefined && metadata?.deletionGracePeriodSeconds !== undefined && now > deletion;
}

function podUsage(pod: Pod, now: number, used: Map<string, Amount>): void {
  if (isOver(pod, now)) return;
  used.set('pods', one);
  for (const [name, amount] of podAmounts(pod, 'requests')) {
    used.set(`requests.${name}`, amount);
    if (!name.includes('/')) used.set(name, amount);
  }
  for (const [name, amount] of podAmounts(pod, 'limits'))
    if (name === 'cpu' || name === 'memory' || name === 'ephemeral-storage') used.set(`limits.${name}`, amount);
}

function serviceUsage({ spec }: Service, used: Map<string, Amount>): void {
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

function claimUsage({ spec, status, metadata }: PersistentVolumeClaim, used: Map<string, Amount>): void {
  const storageClass = metadata?.annotations?.['volume.beta.kubernetes.io/storage-class'] ?? spec?.storageClassName ?? '';
  if (storageClass !== '') used.set(`${storageClass}${classSuffix}persistentvolumeclaims`, one);
  const asked = spec?.resources?.requests?.['storage'];
  if (asked === undefined) return;
  let amount = addQuantity(asked, 0);
  // what is being taken back still counts: KEP-1790
  const allocated = status?.allocatedResources?.['storage'];
  if (allocated !== undefined && addQuantity(allocated, 0).compare(amount) > 0) amount = addQuantity(allocated, 0);
  used.set('requests.storage', amount);
  if (storageClass !== '') used.set(`${storageClass}${classSuffix}requests.storage`, amount);
}

export const isBestEffort = (pod: Pod): boolean => {
  const { spec } = pod;
  const amounts = [...(spec?.containers ?? []), ...(spec?.initContainers ?? []), { resources: spec?.resources }].flatMap(
    ({ resources }) => [...Object.keys(resources?.requests ?? {}), ...Object.keys(resources?.limits ?? {})],
  );
  return !amounts.some((name) => name === 'cpu' || name === 'memory');
};

function crossesNamespaces({ spec }: Pod): boolean {
  const { podAffinity, podAntiAffinity } = spec?.affinity ?? {};
  return [podAffinity, podAntiAffinity].some((affinity) =>
    [
      ...(affinity?.requiredDuringSchedulingIgnoredDuringExecution ?? []),
      ...(affinity?.preferredDuringSchedulingIgnoredDuringExecution ?? []).map(({ podAffinityTerm }) => podAffinityTerm),
    ].some((term) => (term.namespaces?.length ?? 0) > 0 || term.namespaceSelector !== undefined),
  );
}

/** One of the things that a quota may be limited to, with the operators of selectors. */
export interface QuotaScope {
  readonly scopeName: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

/** Whether the scope holds for an object; no scope holds for objects that are neither pods nor claims. */
export function isInScope(resource: string, object: KubeObject, { scopeName, operator, values = [] }: QuotaScope): boolean {
  if (resource === 'pods') return inScope(object, scopeName, operator, values);
  return resource === 'persistentvolumeclaims' && scopeName === 'VolumeAttributesClass' && usesClass(object, operator, values);
}

/** KEP-3751: the class that is asked for, the one that the volume has, and the one that it is on its way to. */
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

/** Whether a quota is about an object at all: all of its scopes have to hold. Pods have scopes, and claims those of their class. */
export function quotaCovers({ spec }: ResourceQuota, resource: string, object: KubeObject): boolean {
  return scopesOf(spec).every((scope) => isInScope(resource, object, scope));
}

export const scopesOf = (spec: ResourceQuota['spec']): readonly QuotaScope[] => [
  ...(spec?.scopes ?? []).map((scopeName) => ({ scopeName, operator: 'Exists' })),
  ...(spec?.scopeSelector?.matchExpressions ?? []),
];

/** What of `used` a quota limits. */
export function limited(quota: ResourceQuota, used: Amounts): Map<string, Amount> {
  const hard = quota.spec?.hard ?? {};
  return new Map([...used].filter(([name]) => hard[name] !== undefined));
}

export function sumOf(a: Amounts, b: Amounts): Map<string, Amount> {
  const sum = new Map(a);
  for (const [name, amount] of b) sum.set(name, addQuantity(sum.get(name) ?? zero, amount));
  return sum;
}

/** What `next` uses more than `old`, name by name; what it uses less is left out. */
export function increase(next: Amounts, old: Amounts): Map<string, Amount> {
  const more = new Map<string, Amount>();
  for (const [name, amount] of next) {
    const delta = subQuantity(amount, old.get(name) ?? zero);
    if (delta.compare(zero) > 0) more.set(name, delta);
  }
  return more;
}
