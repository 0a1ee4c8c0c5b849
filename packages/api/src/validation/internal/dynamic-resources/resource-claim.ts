import { fieldForbidden, invalid, notSupported, required, tooLong, tooMany } from '../../../field/field-error.ts';
import type {
  AllocatedDeviceStatus,
  AllocationResult,
  DeviceClass,
  DeviceRequest,
  DeviceSelector,
  DeviceToleration,
  NetworkDeviceData,
  ResourceClaim,
  ResourceClaimSpec,
  ResourceClaimStatus,
  ResourceClaimTemplate,
} from '../../../generated/types/resource-v1.ts';
import { jsonEqual } from '../../../json/json.ts';
import { parseCIDRSloppy } from '../../../net/cidr.ts';
import { validateAnnotations, validateConditions, validateLabels } from '../../meta.ts';
import { isExtendedResource } from '../../resources.ts';
import { validateDNSLabel, validateDNSSubdomain, validateImmutable, type Errors } from '../checks.ts';
import { validateNodeSelector } from '../core/affinity.ts';
import {
  maxClaimItems,
  validateBindingConditions,
  validateDeviceTolerations,
  validateDriverName,
  validateFullyQualifiedDeviceName,
  validateList,
  validateOpaque,
  validatePoolName,
  validateRawObject,
  validateSelectors,
  validateShareId,
} from './device-checks.ts';

const maxSubRequests = 8;
const maxReservedFor = 256;
const maxDeviceConditions = 8;
const maxDeviceData = 10 * 1024;

/** The names of the requests of a claim, and `request/subrequest` for each subrequest. */
type RequestNames = ReadonlySet<string>;
function requestNamesOf({ devices = {} }: Partial<ResourceClaimSpec>): RequestNames {
  return new Set(
    (devices.requests ?? []).flatMap(({ name, firstAvailable = [] }) => [name, ...firstAvailable.map((sub) => `${name}/${sub.name}`)]),
  );
}

interface ClassRequest {
  readonly tolerations?: readonly DeviceToleration[];
  readonly deviceClassName?: string;
  readonly selectors?: readonly DeviceSelector[];
  readonly allocationMode?: string;
  readonly count?: number;
}
function validateClassRequest(errors: Errors, path: string, request: ClassRequest): void {
  const { deviceClassName = '', allocationMode, count = 0 } = request;
  if (deviceClassName === '') errors.push(required(`${path}.deviceClassName`));
  else validateDNSSubdomain(errors, `${path}.deviceClassName`, deviceClassName);
  validateSelectors(errors, `${path}.selectors`, request.selectors);
  if (allocationMode === 'All') {
    if (count !== 0) errors.push(invalid(`${path}.count`, count, "must not be specified when allocationMode is 'All'"));
  } else if (allocationMode === 'ExactCount') {
    if (count <= 0) errors.push(invalid(`${path}.count`, count, 'must be greater than zero'));
  } else errors.push(notSupported(`${path}.allocationMode`, allocationMode ?? '', ['All', 'ExactCount']));
  validateDeviceTolerations(errors, `${path}.tolerations`, request.tolerations);
}

function validateRequest(errors: Errors, path: string, { name = '', exactly, firstAvailable = [] }: Partial<DeviceRequest>): void {
  validateDNSLabel(errors, `${path}.name`, name);
  const one = 'exactly one of `exactly` or `firstAvailable` is required';
  if (exactly !== undefined && firstAvailable.length > 0) errors.push(invalid(path, undefined, `${one}, but multiple fields are set`));
  else if (exactly !== undefined) validateClassRequest(errors, `${path}.exactly`, exactly);
  else if (firstAvailable.length === 0) errors.push(required(path, one));
  else
    validateList(errors, `${path}.firstAvailable`, {
      list: firstAvailable,
      max: maxSubRequests,
      keyOf: (sub) => sub.name,
      validateItem(sub, at) {
        validateDNSLabel(errors, `${at}.name`, sub.name ?? '');
        validateClassRequest(errors, at, sub);
      },
    });
}

const unknownRequest = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
function validateRequestReference(
  errors: Errors,
  path: string,
  { name, names }: { readonly name: string; readonly names: RequestNames },
): void {
  const segments = name.split('/');
  if (segments.length <= 2) for (const segment of segments) validateDNSLabel(errors, path, segment);
  if (segments.length > 2 || !names.has(name)) errors.push(invalid(path, name, unknownRequest));
}
interface RequestReferences {
  readonly list: readonly string[] | undefined;
  readonly names: RequestNames;
}
function validateRequestReferences(errors: Errors, path: string, { list, names }: RequestReferences): void {
  validateList(errors, path, {
    list: list ?? [],
    max: maxClaimItems,
    keyOf: (name) => name,
    validateItem(name, at) {
      validateRequestReference(errors, at, { name, names });
    },
  });
}

function validateClaimSpec(errors: Errors, path: string, spec: Partial<ResourceClaimSpec>): void {
  const { requests = [], constraints = [], config = [] } = spec.devices ?? {};
  const at = `${path}.devices`;
  const names = requestNamesOf(spec);
  const max = maxClaimItems;
  validateList(errors, `${at}.requests`, {
    list: requests,
    max,
    keyOf: ({ name }) => name,
    validateItem(request, here) {
      validateRequest(errors, here, request);
    },
  });
  validateList(errors, `${at}.constraints`, {
    list: constraints,
    max,
    validateItem({ requests: of, matchAttribute, distinctAttribute }, here) {
      validateRequestReferences(errors, `${here}.requests`, { list: of, names });
      if (matchAttribute !== undefined) validateFullyQualifiedDeviceName(errors, `${here}.matchAttribute`, matchAttribute);
      else if (distinctAttribute !== undefined) validateFullyQualifiedDeviceName(errors, `${here}.distinctAttribute`, distinctAttribute);
      else errors.push(required(here, 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'));
    },
  });
  validateList(errors, `${at}.config`, {
    list: config,
    max,
    validateItem({ requests: of, opaque }, here) {
      validateRequestReferences(errors, `${here}.requests`, { list: of, names });
      validateOpaque(errors, here, { opaque });
    },
  });
}

export function validateResourceClaim(errors: Errors, { spec }: ResourceClaim, old?: ResourceClaim): void {
  if (old === undefined) validateClaimSpec(errors, 'spec', spec ?? {});
  else validateImmutable(errors, 'spec', spec, old.spec);
}

export function validateResourceClaimTemplate(errors: Errors, { spec }: ResourceClaimTemplate, old?: ResourceClaimTemplate): void {
  if (old !== undefined) {
    validateImmutable(errors, 'spec', spec, old.spec);
    return;
  }
  validateAnnotations(errors, 'spec.metadata.annotations', spec?.metadata?.annotations);
  validateLabels(errors, 'spec.metadata.labels', spec?.metadata?.labels);
  validateClaimSpec(errors, 'spec.spec', spec?.spec ?? {});
}

export function validateDeviceClass(errors: Errors, { spec = {} }: DeviceClass, old?: DeviceClass): void {
  const { selectors, config = [], extendedResourceName: name } = spec;
  validateSelectors(errors, 'spec.selectors', selectors);
  const isStored = old !== undefined && jsonEqual(config, old.spec?.config ?? []);
  validateList(errors, 'spec.config', {
    list: config,
    max: maxClaimItems,
    validateItem({ opaque }, at) {
      validateOpaque(errors, at, { opaque, isStored });
    },
  });
  if (name !== undefined && !isExtendedResource(name))
    errors.push(invalid('spec.extendedResourceName', name, 'must be a valid extended resource name'));
}

export function validateResourceClaimStatus(errors: Errors, claim: ResourceClaim, old?: ResourceClaim): void {
  const status: ResourceClaimStatus = claim.status ?? {};
  const { reservedFor = [], allocation, devices = [] } = status;
  validateList(errors, 'status.reservedFor', {
    list: reservedFor,
    max: maxReservedFor,
    keyOf: ({ uid }) => uid,
    validateItem({ resource = '', name = '', uid = '' }, at) {
      for (const [key, value] of Object.entries({ resource, name, uid })) if (value === '') errors.push(required(`${at}.${key}`));
    },
  });
  validateDeviceStatuses(errors, devices, allocation);
  if (reservedFor.length > 0) {
    if (allocation === undefined) errors.push(fieldForbidden('status.reservedFor', 'may not be specified when `allocated` is not set'));
    else if (claim.metadata?.deletionTimestamp !== undefined && hasNewConsumers(status, old?.status)) {
      const terminating = 'new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set';
      errors.push(fieldForbidden('status.reservedFor', terminating));
    }
  }
  if (allocation === undefined) return;
  if (old?.status?.allocation !== undefined) validateImmutable(errors, 'status.allocation', allocation, old.status.allocation);
  else validateAllocation(errors, allocation, requestNamesOf(claim.spec ?? {}));
}

function hasNewConsumers({ reservedFor = [] }: ResourceClaimStatus, old: ResourceClaimStatus | undefined): boolean {
  const before = new Set((old?.reservedFor ?? []).map((consumer) => JSON.stringify(consumer)));
  return reservedFor.some((consumer) => !before.has(JSON.stringify(consumer)));
}

type DeviceId = Pick<AllocatedDeviceStatus, 'driver' | 'pool' | 'device' | 'shareID'>;
const deviceIdOf = ({ driver, pool, device, shareID }: DeviceId): string =>
  `${driver}/${pool}/${device}${shareID === undefined ? '' : `/${shareID}`}`;

function validateDeviceStatuses(errors: Errors, list: readonly AllocatedDeviceStatus[], allocation: AllocationResult | undefined): void {
  const allocated = new Set((allocation?.devices?.results ?? []).map(deviceIdOf));
  validateList(errors, 'status.devices', {
    list,
    keyOf: deviceIdOf,
    validateItem(status, at) {
      validateDriverName(errors, `${at}.driver`, status.driver);
      validatePoolName(errors, `${at}.pool`, status.pool);
      validateDNSLabel(errors, `${at}.device`, status.device ?? '');
      validateShareId(errors, `${at}.shareID`, status.shareID);
      if (!allocated.has(deviceIdOf(status))) errors.push(invalid(at, deviceIdOf(status), 'must be an allocated device in the claim'));
      const conditions = status.conditions ?? [];
      if (conditions.length > maxDeviceConditions) errors.push(tooMany(`${at}.conditions`, conditions.length, maxDeviceConditions));
      validateConditions(errors, `${at}.conditions`, conditions);
      if (status.data !== undefined) validateRawObject(errors, `${at}.data`, { value: status.data, max: maxDeviceData });
      if (status.networkData !== undefined) validateNetworkData(errors, `${at}.networkData`, status.networkData);
    },
  });
}

function validateNetworkData(
  errors: Errors,
  path: string,
  { interfaceName = '', hardwareAddress = '', ips = [] }: NetworkDeviceData,
): void {
  if (Buffer.byteLength(interfaceName) > 256) errors.push(tooLong(`${path}.interfaceName`, 256));
  if (Buffer.byteLength(hardwareAddress) > 128) errors.push(tooLong(`${path}.hardwareAddress`, 128));
  validateList(errors, `${path}.ips`, {
    list: ips,
    max: 16,
    keyOf: (address) => address,
    validateItem(address, at) {
      if (parseCIDRSloppy(address) === undefined)
        errors.push(invalid(at, address, 'must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)'));
    },
  });
}

function validateAllocation(errors: Errors, { devices = {}, nodeSelector }: AllocationResult, names: RequestNames): void {
  const path = 'status.allocation';
  validateList(errors, `${path}.devices.results`, {
    list: devices.results ?? [],
    max: maxClaimItems,
    validateItem(result, at) {
      validateRequestReference(errors, `${at}.request`, { name: result.request ?? '', names });
      validateDriverName(errors, `${at}.driver`, result.driver);
      validatePoolName(errors, `${at}.pool`, result.pool);
      validateDNSLabel(errors, `${at}.device`, result.device ?? '');
      validateBindingConditions(errors, at, result);
      validateDeviceTolerations(errors, `${at}.tolerations`, result.tolerations);
      validateShareId(errors, `${at}.shareID`, result.shareID);
    },
  });
  validateList(errors, `${path}.devices.config`, {
    list: devices.config ?? [],
    max: 2 * maxClaimItems,
    validateItem({ source = '', requests, opaque }, at) {
      if (source === '') errors.push(required(`${at}.source`));
      else if (!['FromClaim', 'FromClass'].includes(source)) errors.push(notSupported(`${at}.source`, source, ['FromClaim', 'FromClass']));
      validateRequestReferences(errors, `${at}.requests`, { list: requests, names });
      validateOpaque(errors, at, { opaque });
    },
  });
  if (nodeSelector !== undefined) validateNodeSelector(errors, `${path}.nodeSelector`, nodeSelector);
}
