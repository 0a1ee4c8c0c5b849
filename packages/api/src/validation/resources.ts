import { isRestartableInitContainer } from '../component-helpers/restartable-init-container.ts';
import { duplicate, fieldForbidden, invalid, notSupported, required } from '../field/field-error.ts';
import type { PodSpec, ResourceRequirements } from '../generated/types/core-v1.ts';
import type { Quantity } from '../generated/types/meta-v1.ts';
import { isQualifiedName } from '../values/names.ts';
import { addQuantity, type ParsedQuantity, compareQuantity, parseQuantity } from '../values/quantity.ts';
import { validateDNSLabel, addInvalid, isNegative, type Errors } from './internal/checks.ts';

type ResourceList = Readonly<Record<string, Quantity>>;
type NameCheck = (errors: Errors, path: string, name: string) => void;

const isHugePages = (name: string) => name.startsWith('hugepages-');
const containerResources = new Set(['cpu', 'memory', 'ephemeral-storage']);
const standardResources = new Set([
  ...containerResources,
  'requests.cpu',
  'requests.memory',
  'requests.ephemeral-storage',
  'limits.cpu',
  'limits.memory',
  'limits.ephemeral-storage',
  'pods',
  'services',
  'replicationcontrollers',
  'resourcequotas',
  'secrets',
  'configmaps',
  'persistentvolumeclaims',
  'storage',
  'requests.storage',
  'services.nodeports',
  'services.loadbalancers',
]);
const countedResources = new Set([
  'pods',
  'services',
  'replicationcontrollers',
  'resourcequotas',
  'secrets',
  'configmaps',
  'persistentvolumeclaims',
  'services.nodeports',
  'services.loadbalancers',
]);
/** Returns true for names in the domain kubernetes.io or without a domain. */
export const isNativeResource = (name: string) => !name.includes('/') || name.includes('kubernetes.io/');
export function isExtendedResource(name: string): boolean {
  return !isNativeResource(name) && !name.startsWith('requests.') && isQualifiedName(`requests.${name}`).length === 0;
}
/** Returns true for resources whose limits may exceed their requests (IsOvercommitAllowed). */
export const overcommitAllowed = (name: string) => isNativeResource(name) && !isHugePages(name);
const isInteger = (name: string) => countedResources.has(name) || isExtendedResource(name);

const validateResourceName: NameCheck = (errors, path, name) => {
  const messages = isQualifiedName(name);
  addInvalid(errors, path, name, messages);
  if (
    messages.length === 0 &&
    !name.includes('/') &&
    !standardResources.has(name) &&
    !isHugePages(name) &&
    !/^(requests\.)?hugepages-/.test(name)
  ) {
    errors.push(invalid(path, name, 'must be a standard resource type or fully qualified'));
  }
};
const validateContainerResourceName: NameCheck = (errors, path, name) => {
  validateResourceName(errors, path, name);
  if (!name.includes('/')) {
    if (!containerResources.has(name) && !isHugePages(name)) errors.push(invalid(path, name, 'must be a standard resource for containers'));
  } else if (!isNativeResource(name) && !isExtendedResource(name))
    errors.push(invalid(path, name, "doesn't follow extended resource name standard"));
};
const validatePodResourceName: NameCheck = (errors, path, name) => {
  const before = errors.length;
  validateResourceName(errors, path, name);
  if (errors.length === before && name !== 'cpu' && name !== 'memory' && !isHugePages(name))
    errors.push(notSupported(path, name, ['cpu', 'hugepages-', 'memory']));
};

export function validateResourceQuantity(errors: Errors, path: string, name: string, quantity: Quantity): void {
  const amount = parseQuantity(quantity);
  if (amount.sign < 0) errors.push(invalid(path, amount.toString(), isNegative));
  if (isInteger(name) && amount.nanos % 1_000_000_000n !== 0n) errors.push(invalid(path, amount.toString(), 'must be an integer'));
}

export function validateHugePageMultiple(errors: Errors, path: string, name: string, quantity: Quantity): void {
  if (!isHugePages(name)) return;
  let size: ParsedQuantity;
  try {
    size = parseQuantity(name.slice('hugepages-'.length));
  } catch (error) {
    errors.push(invalid(path, parseQuantity(quantity).toString(), error instanceof Error ? error.message : String(error)));
    return;
  }
  const amount = parseQuantity(quantity);
  if (size.sign <= 0 || amount.nanos % size.nanos !== 0n)
    errors.push(invalid(path, amount.toString(), `${amount} is not positive integer multiple of ${name}`));
}

function validateRequirements(
  errors: Errors,
  path: string,
  { limits = {}, requests = {}, claims = [] }: ResourceRequirements,
  checkName: NameCheck,
  claimNames: ReadonlySet<string>,
): void {
  const limitsPath = `${path}.limits`;
  const requestsPath = `${path}.requests`;
  const both: readonly (readonly [string, ResourceList])[] = [
    [limitsPath, limits],
    [requestsPath, requests],
  ];
  for (const [listPath, list] of both) {
    for (const [name, quantity] of Object.entries(list)) {
      const at = `${listPath}[${name}]`;
      checkName(errors, at, name);
      validateResourceQuantity(errors, at, name, quantity);
      if (list === requests) validateRequestWithinLimit(errors, requestsPath, { limitsPath, name, request: quantity, limits });
      validateHugePageMultiple(errors, at, name, quantity);
    }
  }
  const names = [...Object.keys(limits), ...Object.keys(requests)];
  if (names.some(isHugePages) && !names.includes('cpu') && !names.includes('memory'))
    errors.push(fieldForbidden(path, 'HugePages require cpu or memory'));
  if (claims.length === 0) return;
  const [seen, withRequest] = [new Set<string>(), new Set<string>()];
  for (const [i, { name = '', request = '' }] of claims.entries()) {
    const at = `${path}.claims[${i}]`;
    if (name === '') {
      errors.push(required(at));
      continue;
    }
    if (request !== '') validateDNSLabel(errors, `${at}.request`, request);
    const key = request === '' ? name : `${name}/${request}`;
    // A reference to the whole claim overlaps with a reference to any of its requests.
    if (seen.has(name) || seen.has(key) || (request === '' && withRequest.has(name)))
      errors.push(duplicate(at, seen.has(name) ? name : key));
    seen.add(key);
    if (request !== '') withRequest.add(name);
    if (!claimNames.has(name)) {
      const known = claimNames.size === 0 ? ' which is empty' : `: ${[...claimNames].sort().join(', ')}`;
      errors.push({
        type: 'FieldValueNotFound',
        field: at,
        message: `Not found: ${JSON.stringify(name)}: must be one of the names in pod.spec.resourceClaims${known}`,
      });
    }
  }
}

function validateRequestWithinLimit(
  errors: Errors,
  path: string,
  {
    limitsPath,
    name,
    request,
    limits,
  }: { readonly limitsPath: string; readonly name: string; readonly request: Quantity; readonly limits: ResourceList },
): void {
  const limit = Object.hasOwn(limits, name) ? limits[name] : undefined;
  if (limit === undefined) {
    if (!overcommitAllowed(name)) errors.push(required(limitsPath, 'Limit must be set for non overcommitable resources'));
    return;
  }
  const order = compareQuantity(request, limit);
  const requestText = parseQuantity(request).toString();
  if (order !== 0 && !overcommitAllowed(name))
    errors.push(invalid(path, requestText, `must be equal to ${name} limit of ${parseQuantity(limit)}`));
  else if (order > 0) errors.push(invalid(path, requestText, `must be less than or equal to ${name} limit of ${parseQuantity(limit)}`));
}

export function validateContainerRequirements(
  errors: Errors,
  path: string,
  resources: ResourceRequirements | undefined,
  claimNames: ReadonlySet<string>,
): void {
  if (resources !== undefined) validateRequirements(errors, path, resources, validateContainerResourceName, claimNames);
}

/** Validates that the pod-level requests are not less than the requests of the containers (KEP-2837). */
export function validatePodRequirements(errors: Errors, path: string, spec: PodSpec): void {
  const { resources } = spec;
  if (resources === undefined) return;
  if (resources.claims !== undefined) errors.push(fieldForbidden(`${path}.claims`, 'claims cannot be set for Resources at pod-level'));
  validateRequirements(errors, path, resources, validatePodResourceName, new Set());
  for (const [name, sum] of aggregateContainerRequests(spec)) {
    const request = resources.requests?.[name] ?? '0';
    if (compareQuantity(sum, request) > 0) {
      errors.push(
        invalid(
          `${path}.requests[${name}]`,
          parseQuantity(request).toString(),
          `must be greater than or equal to aggregate container requests of ${sum}`,
        ),
      );
    }
  }
  for (const [i, container] of (spec.containers ?? []).entries()) {
    for (const [name, limit] of Object.entries(container.resources?.limits ?? {})) {
      const podLimit = resources.limits?.[name];
      if (podLimit !== undefined && compareQuantity(limit, podLimit) > 0) {
        errors.push(
          invalid(
            `${path}.containers[${i}][${name}].limits`,
            parseQuantity(limit).toString(),
            `must be less than or equal to pod limits of ${parseQuantity(podLimit)}`,
          ),
        );
      }
    }
  }
}

/** Returns the maximum that all containers request at the same time: sidecars run beside everything, other init containers one at a time. */
export function aggregateContainerRequests(spec: PodSpec): ReadonlyMap<string, ParsedQuantity> {
  const add = (sums: Map<string, ParsedQuantity>, list: ResourceList = {}) => {
    for (const [name, quantity] of Object.entries(list)) sums.set(name, addQuantity(sums.get(name) ?? '0', quantity));
  };
  const total = new Map<string, ParsedQuantity>();
  const sidecars = new Map<string, ParsedQuantity>();
  const peaks: Map<string, ParsedQuantity>[] = [];
  for (const container of spec.containers ?? []) add(total, container.resources?.requests);
  for (const container of spec.initContainers ?? []) {
    if (isRestartableInitContainer(container)) {
      add(total, container.resources?.requests);
      add(sidecars, container.resources?.requests);
    } else {
      const together = new Map(sidecars);
      add(together, container.resources?.requests);
      peaks.push(together);
    }
  }
  for (const peak of peaks) {
    for (const [name, amount] of peak) if (compareQuantity(amount, total.get(name) ?? '0') > 0) total.set(name, amount);
  }
  return total;
}
