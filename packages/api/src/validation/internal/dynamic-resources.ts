import { duplicate, invalid, required, tooLong, tooMany } from '../../field/field-error.ts';
import type {
  DeviceClass,
  DeviceSelector,
  DeviceToleration,
  ResourceClaim,
  ResourceClaimSpec,
  ResourceClaimTemplate,
  ResourceSlice,
} from '../../generated/types/resource-v1.ts';
import { isCIdentifier, isDns1123Label, isDns1123Subdomain, isLabelValue } from '../../values/names.ts';
import {
  validateDNSLabel,
  validateDNSSubdomain,
  validateOptionalEnum,
  validateImmutable,
  addInvalid,
  validateEnum,
  validateQualifiedName,
  type Errors,
} from './checks.ts';

const maxItems = 32;
const maxDevices = 128;

function validateSelectors(errors: Errors, path: string, list: readonly DeviceSelector[]): void {
  if (list.length > maxItems) errors.push(tooMany(path, list.length, maxItems));
  for (const [i, { cel }] of list.entries()) {
    if (cel === undefined) errors.push(required(`${path}[${i}].cel`));
    else if (!cel.expression) errors.push(required(`${path}[${i}].cel.expression`));
  }
}

const maxTolerations = 16;
const maxIdLength = 32;

/** Validates the tolerations of device taints (KEP-5055). */
function validateDeviceTolerations(errors: Errors, path: string, list: readonly DeviceToleration[]): void {
  if (list.length > maxTolerations) errors.push(tooMany(path, list.length, maxTolerations));
  for (const [i, { key = '', operator = '', value = '', effect }] of list.entries()) {
    const at = `${path}[${i}]`;
    if (key !== '') validateQualifiedName(errors, `${at}.key`, key);
    validateEnum(errors, `${at}.operator`, operator, ['Equal', 'Exists']);
    if (operator === 'Exists' && value !== '') errors.push(invalid(`${at}.value`, value, 'must be empty for operator `Exists`'));
    if (operator === 'Equal') addInvalid(errors, `${at}.value`, value, isLabelValue(value));
    if (effect) validateOptionalEnum(errors, `${at}.effect`, effect, ['NoExecute', 'NoSchedule']);
  }
}

/** Validates the name of an attribute with a domain: `example.com/model`. */
function validateAttributeName(errors: Errors, path: string, name: string): void {
  if (name === '') {
    errors.push(required(path, 'name required'));
    return;
  }
  const slash = name.indexOf('/');
  const [domain, id] = [name.slice(0, Math.max(slash, 0)), name.slice(slash + 1)];
  if (slash === 0) errors.push(required(path, 'the domain must not be empty'));
  else if (slash > 0) addInvalid(errors, path, domain, isDns1123Subdomain(domain));
  if (id === '') errors.push(required(path, 'the name must not be empty'));
  else {
    if (id.length > maxIdLength) errors.push(tooLong(path, maxIdLength));
    addInvalid(errors, path, id, isCIdentifier(id));
  }
  if (slash < 0) errors.push(invalid(path, name, 'must include a domain'));
}

interface ClassRequest {
  readonly tolerations?: readonly DeviceToleration[];
  readonly deviceClassName?: string;
  readonly selectors?: readonly DeviceSelector[];
  readonly allocationMode?: string;
  readonly count?: number;
}
function validateClassRequest(
  errors: Errors,
  path: string,
  { deviceClassName = '', selectors: list = [], allocationMode, count = 0, tolerations = [] }: ClassRequest,
): void {
  if (deviceClassName === '') errors.push(required(`${path}.deviceClassName`));
  else validateDNSSubdomain(errors, `${path}.deviceClassName`, deviceClassName);
  validateSelectors(errors, `${path}.selectors`, list);
  validateEnum(errors, `${path}.allocationMode`, allocationMode, ['All', 'ExactCount']);
  if (allocationMode === 'ExactCount' && count <= 0) errors.push(invalid(`${path}.count`, count, 'must be greater than zero'));
  if (allocationMode === 'All' && count !== 0)
    errors.push(invalid(`${path}.count`, count, "must not be specified when allocationMode is 'All'"));
  validateDeviceTolerations(errors, `${path}.tolerations`, tolerations);
}

function validateClaimSpec(errors: Errors, path: string, { devices = {} }: ResourceClaimSpec): void {
  const { requests = [], constraints = [], config = [] } = devices;
  const at = `${path}.devices`;
  const names = new Set<string>();
  if (requests.length > maxItems) errors.push(tooMany(`${at}.requests`, requests.length, maxItems));
  for (const [i, request] of requests.entries()) {
    const here = `${at}.requests[${i}]`;
    const { name = '', exactly, firstAvailable = [] } = request;
    if (name === '') errors.push(required(`${here}.name`));
    else validateDNSLabel(errors, `${here}.name`, name);
    if (names.has(name)) errors.push(duplicate(`${here}.name`, name));
    names.add(name);
    if (exactly === undefined && firstAvailable.length === 0)
      errors.push(required(here, 'exactly one of `exactly` or `firstAvailable` is required'));
    if (exactly !== undefined && firstAvailable.length > 0)
      errors.push(invalid(here, request, 'exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set'));
    if (exactly !== undefined) validateClassRequest(errors, `${here}.exactly`, exactly);
    for (const [j, sub] of firstAvailable.entries()) {
      addInvalid(errors, `${here}.firstAvailable[${j}].name`, sub.name ?? '', isDns1123Label(sub.name ?? ''));
      validateClassRequest(errors, `${here}.firstAvailable[${j}]`, sub);
      names.add(`${name}/${sub.name}`);
    }
  }
  const known = (where: string, requestNames: readonly string[]) => {
    for (const [j, name] of requestNames.entries())
      if (!names.has(name))
        errors.push(
          invalid(
            `${where}.requests[${j}]`,
            name,
            "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
          ),
        );
  };
  if (constraints.length > maxItems) errors.push(tooMany(`${at}.constraints`, constraints.length, maxItems));
  for (const [i, { requests: of = [], matchAttribute, distinctAttribute }] of constraints.entries()) {
    known(`${at}.constraints[${i}]`, of);
    if (matchAttribute === undefined && distinctAttribute === undefined) errors.push(required(`${at}.constraints[${i}].matchAttribute`));
    if (matchAttribute !== undefined) validateAttributeName(errors, `${at}.constraints[${i}].matchAttribute`, matchAttribute);
    if (distinctAttribute !== undefined) validateAttributeName(errors, `${at}.constraints[${i}].distinctAttribute`, distinctAttribute);
  }
  if (config.length > maxItems) errors.push(tooMany(`${at}.config`, config.length, maxItems));
  for (const [i, { requests: of = [], opaque }] of config.entries()) {
    known(`${at}.config[${i}]`, of);
    if (opaque === undefined) errors.push(required(`${at}.config[${i}].opaque`));
    else {
      addInvalid(errors, `${at}.config[${i}].opaque.driver`, opaque.driver ?? '', isDns1123Subdomain(opaque.driver ?? ''));
      if (opaque.parameters === undefined) errors.push(required(`${at}.config[${i}].opaque.parameters`));
    }
  }
}

export function validateResourceClaim(errors: Errors, { spec }: ResourceClaim, old?: ResourceClaim): void {
  if (old === undefined) validateClaimSpec(errors, 'spec', spec ?? {});
  else validateImmutable(errors, 'spec', spec, old.spec);
}

export function validateResourceClaimStatus(errors: Errors, { status }: ResourceClaim, old?: ResourceClaim): void {
  const reserved = status?.reservedFor ?? [];
  if (reserved.length > 256) errors.push(tooMany('status.reservedFor', reserved.length, 256));
  const users = new Set<string>();
  for (const [i, { resource = '', name = '', uid = '' }] of reserved.entries()) {
    const at = `status.reservedFor[${i}]`;
    for (const [key, value] of Object.entries({ resource, name, uid })) if (value === '') errors.push(required(`${at}.${key}`));
    if (users.has(uid)) errors.push(duplicate(at, uid));
    users.add(uid);
  }
  if (reserved.length > 0 && status?.allocation === undefined)
    errors.push({
      type: 'FieldValueForbidden',
      field: 'status.reservedFor',
      message: 'Forbidden: may not be specified when `allocated` is not set',
    });
  if (old?.status?.allocation !== undefined && status?.allocation !== undefined)
    validateImmutable(errors, 'status.allocation', status.allocation, old.status.allocation);
}

export function validateResourceClaimTemplate(errors: Errors, { spec }: ResourceClaimTemplate, old?: ResourceClaimTemplate): void {
  if (old === undefined) validateClaimSpec(errors, 'spec.spec', spec?.spec ?? {});
  else validateImmutable(errors, 'spec', spec, old.spec);
}

export function validateDeviceClass(errors: Errors, { spec = {} }: DeviceClass): void {
  validateSelectors(errors, 'spec.selectors', spec.selectors ?? []);
  const config = spec.config ?? [];
  if (config.length > maxItems) errors.push(tooMany('spec.config', config.length, maxItems));
  for (const [i, { opaque }] of config.entries()) {
    if (opaque === undefined) errors.push(required(`spec.config[${i}].opaque`));
    else {
      addInvalid(errors, `spec.config[${i}].opaque.driver`, opaque.driver ?? '', isDns1123Subdomain(opaque.driver ?? ''));
      if (opaque.parameters === undefined) errors.push(required(`spec.config[${i}].opaque.parameters`));
    }
  }
}

export function validateResourceSlice(errors: Errors, { spec }: ResourceSlice, old?: ResourceSlice): void {
  const {
    driver = '',
    nodeName = '',
    nodeSelector,
    allNodes,
    perDeviceNodeSelection,
    pool,
    devices = [],
    sharedCounters = [],
  } = spec ?? {};
  if (old !== undefined) {
    validateImmutable(errors, 'spec.pool.name', pool?.name, old.spec?.pool?.name);
    validateImmutable(errors, 'spec.driver', driver, old.spec?.driver);
    validateImmutable(errors, 'spec.nodeName', nodeName, old.spec?.nodeName ?? '');
  }
  addInvalid(errors, 'spec.driver', driver, isDns1123Subdomain(driver));
  const { name = '', resourceSliceCount = 0, generation = 0 } = pool ?? {};
  if (name === '') errors.push(required('spec.pool.name'));
  else if (name.length > 253)
    errors.push({ type: 'FieldValueTooLong', field: 'spec.pool.name', message: 'Too long: may not be more than 253 bytes' });
  else for (const part of name.split('/')) addInvalid(errors, 'spec.pool.name', part, isDns1123Subdomain(part));
  if (resourceSliceCount <= 0) errors.push(invalid('spec.pool.resourceSliceCount', resourceSliceCount, 'must be greater than zero'));
  if (generation < 0) errors.push(invalid('spec.pool.generation', generation, 'must be greater than or equal to zero'));
  const where = [nodeName !== '', nodeSelector !== undefined, allNodes === true, perDeviceNodeSelection === true].filter(Boolean).length;
  const one = 'exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required';
  if (where === 0) errors.push(required('spec', one));
  else if (where > 1) errors.push(invalid('spec', '{...}', `${one}, but multiple fields are set`));
  if (nodeName !== '') addInvalid(errors, 'spec.nodeName', nodeName, isDns1123Subdomain(nodeName));
  if (devices.length > maxDevices) errors.push(tooMany('spec.devices', devices.length, maxDevices));
  const names = new Set<string>();
  for (const [i, device] of devices.entries()) {
    validateDNSLabel(errors, `spec.devices[${i}].name`, device.name ?? '');
    if (names.has(device.name)) errors.push(duplicate(`spec.devices[${i}].name`, device.name));
    names.add(device.name);
    for (const [j, taint] of (device.taints ?? []).entries())
      validateOptionalEnum(errors, `spec.devices[${i}].taints[${j}].effect`, taint.effect, ['NoExecute', 'NoSchedule', 'None']);
  }
  const sets = new Set<string>();
  for (const [i, set] of sharedCounters.entries()) {
    if (sets.has(set.name)) errors.push(duplicate(`spec.sharedCounters[${i}].name`, set.name));
    sets.add(set.name);
  }
}
