import { invalid, required, tooLong } from '../../../field/field-error.ts';
import type {
  CounterSet,
  Device,
  DeviceAttribute,
  DeviceCounterConsumption,
  ResourceSlice,
  ResourceSliceSpec,
} from '../../../generated/types/resource-v1.ts';
import type { DeviceTaintRule } from '../../../generated/types/resource-v1beta2.ts';
import { jsonEqual } from '../../../json/json.ts';
import { validateDNSLabel, validateDNSSubdomain, validateImmutable, type Errors } from '../checks.ts';
import { validateNodeSelector } from '../core/affinity.ts';
import {
  forbidRequestPolicy,
  validateBindingConditions,
  validateDeviceTaint,
  validateDriverName,
  validateList,
  validateMap,
  validatePoolName,
  validateQualifiedDeviceName,
} from './device-checks.ts';
import { validateRequestPolicy } from './request-policy.ts';

const maxDevices = 128;
const maxDevicesWithAdvancedFeatures = 64;
const maxCounterSets = 8;
const maxCounters = 32;
const maxCounterConsumptions = 2;
const maxAttributesAndCapacities = 32;
const maxAttributeLength = 64;
const maxTaints = 16;

export function validateResourceSlice(errors: Errors, slice: ResourceSlice, old?: ResourceSlice): void {
  const spec: Partial<ResourceSliceSpec> = slice.spec ?? {};
  const { driver, pool, devices = [], sharedCounters = [] } = spec;
  validateDriverName(errors, 'spec.driver', driver);
  validatePoolName(errors, 'spec.pool.name', pool?.name);
  const { resourceSliceCount = 0, generation = 0 } = pool ?? {};
  if (resourceSliceCount <= 0) errors.push(invalid('spec.pool.resourceSliceCount', resourceSliceCount, 'must be greater than zero'));
  if (generation < 0) errors.push(invalid('spec.pool.generation', generation, 'must be greater than or equal to zero'));
  if (old !== undefined) {
    validateImmutable(errors, 'spec.pool.name', pool?.name, old.spec?.pool?.name);
    validateImmutable(errors, 'spec.driver', driver, old.spec?.driver);
    validateImmutable(errors, 'spec.nodeName', spec.nodeName, old.spec?.nodeName);
  }
  validateSliceNodes(errors, spec);
  if (spec.sharedCounters !== undefined && spec.devices !== undefined)
    errors.push(invalid('spec', '', 'only one of `sharedCounters` or `devices` is allowed'));
  const isAdvanced = devices.some(({ taints = [], consumesCounters = [] }) => taints.length > 0 || consumesCounters.length > 0);
  const before = new Map((old?.spec?.devices ?? []).map((device) => [device.name, device]));
  validateList(errors, 'spec.devices', {
    list: devices,
    max: isAdvanced ? maxDevicesWithAdvancedFeatures : maxDevices,
    keyOf: ({ name }) => name,
    validateItem(device, at) {
      validateDevice(errors, at, { device, old: before.get(device.name) });
      if (spec.perDeviceNodeSelection === true) validateDeviceNodes(errors, at, device);
      else forbidDeviceNodes(errors, at, device);
    },
  });
  validateList(errors, 'spec.sharedCounters', {
    list: sharedCounters,
    max: maxCounterSets,
    keyOf: ({ name }) => name,
    validateItem(set, at) {
      validateCounters(errors, at, { counterName: 'name', counterSet: set.name, counters: set.counters });
    },
  });
}

/** Requires exactly one of the fields that select which nodes can use to the devices of a slice. */
function validateSliceNodes(
  errors: Errors,
  { nodeName, nodeSelector, allNodes, perDeviceNodeSelection }: Partial<ResourceSliceSpec>,
): void {
  const fields: string[] = [];
  if (nodeName === '') errors.push(invalid('spec.nodeName', nodeName, 'must be either unset or set to a non-empty string'));
  else if (nodeName !== undefined) {
    fields.push('`nodeName`');
    validateDNSSubdomain(errors, 'spec.nodeName', nodeName);
  }
  if (nodeSelector !== undefined) {
    fields.push('`nodeSelector`');
    validateNodeSelector(errors, 'spec.nodeSelector', nodeSelector);
    const terms = nodeSelector.nodeSelectorTerms ?? [];
    if (terms.length !== 1) errors.push(invalid('spec.nodeSelector.nodeSelectorTerms', terms, 'must have exactly one node selector term'));
  }
  for (const [name, value] of Object.entries({ allNodes, perDeviceNodeSelection })) {
    if (value === true) fields.push(`\`${name}\``);
    else if (value === false) errors.push(invalid(`spec.${name}`, value, 'must be either unset or set to true'));
  }
  const one = 'exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required';
  if (fields.length === 0) errors.push(required('spec', one));
  else if (fields.length > 1) errors.push(invalid('spec', `{${fields.join(', ')}}`, `${one}, but multiple fields are set`));
}

function forbidDeviceNodes(errors: Errors, path: string, { nodeName, nodeSelector, allNodes }: Device): void {
  if (nodeName === undefined && nodeSelector === undefined && allNodes === undefined) return;
  const only = 'can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec';
  errors.push(invalid(path, undefined, `\`nodeName\`, \`nodeSelector\` and \`allNodes\` ${only}`));
}

function validateDeviceNodes(errors: Errors, path: string, { nodeName, nodeSelector, allNodes }: Device): void {
  const fields: string[] = [];
  if (nodeName === '') errors.push(invalid(`${path}.nodeName`, nodeName, 'must not be empty'));
  else if (nodeName !== undefined) {
    fields.push('`nodeName`');
    validateDNSSubdomain(errors, `${path}.nodeName`, nodeName);
  }
  if (nodeSelector !== undefined) {
    fields.push('`nodeSelector`');
    validateNodeSelector(errors, `${path}.nodeSelector`, nodeSelector);
  }
  if (allNodes === true) fields.push('`allNodes`');
  else if (allNodes === false) errors.push(invalid(`${path}.allNodes`, allNodes, 'must be either unset or set to true'));
  const one =
    'exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec';
  if (fields.length === 0) errors.push(required(path, one));
  else if (fields.length > 1) errors.push(invalid(path, `{${fields.join(', ')}}`, one));
}

interface DeviceChange {
  readonly device: Device;
  readonly old: Device | undefined;
}
function validateDevice(errors: Errors, path: string, { device, old }: DeviceChange): void {
  const { attributes = {}, capacity = {}, taints = [], consumesCounters = [] } = device;
  validateDNSLabel(errors, `${path}.name`, device.name ?? '');
  const count = Object.keys(attributes).length + Object.keys(capacity).length;
  if (count > maxAttributesAndCapacities)
    errors.push(invalid(path, count, `the total number of attributes and capacities must not exceed ${maxAttributesAndCapacities}`));
  validateMap(errors, `${path}.attributes`, {
    map: attributes,
    validateKey: validateQualifiedDeviceName,
    validateValue(attribute, at) {
      validateAttribute(errors, at, attribute);
    },
  });
  if (old === undefined || !jsonEqual(old.capacity ?? {}, capacity))
    validateMap(errors, `${path}.capacity`, {
      map: capacity,
      validateKey: validateQualifiedDeviceName,
      validateValue(value, at) {
        if (device.allowMultipleAllocations === true) validateRequestPolicy(errors, `${at}.requestPolicy`, value);
        else if (value.requestPolicy !== undefined) forbidRequestPolicy(errors, at);
      },
    });
  if (old === undefined || !jsonEqual(old.taints ?? [], taints))
    validateList(errors, `${path}.taints`, {
      list: taints,
      max: maxTaints,
      validateItem(taint, at) {
        validateDeviceTaint(errors, at, taint);
      },
    });
  validateList(errors, `${path}.consumesCounters`, {
    list: consumesCounters,
    max: maxCounterConsumptions,
    keyOf: ({ counterSet }) => counterSet,
    validateItem({ counterSet, counters }, at) {
      validateCounters(errors, at, { counterName: 'counterSet', counterSet, counters });
    },
  });
  validateBindingConditions(errors, path, device);
}

interface Counters {
  readonly counterName: 'name' | 'counterSet';
  readonly counterSet: string | undefined;
  readonly counters: (CounterSet | DeviceCounterConsumption)['counters'] | undefined;
}
function validateCounters(errors: Errors, path: string, { counterName, counterSet = '', counters = {} }: Counters): void {
  if (counterSet === '') errors.push(required(`${path}.${counterName}`));
  else validateDNSLabel(errors, `${path}.${counterName}`, counterSet);
  if (Object.keys(counters).length === 0) errors.push(required(`${path}.counters`));
  else validateMap(errors, `${path}.counters`, { map: counters, max: maxCounters, validateKey: validateDNSLabel });
}

// semver.org 2.0.0
const semver =
  /^(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?$/;

function validateAttribute(errors: Errors, path: string, attribute: DeviceAttribute): void {
  const { string, version } = attribute;
  if (string !== undefined && Buffer.byteLength(string) > maxAttributeLength) errors.push(tooLong(`${path}.string`, maxAttributeLength));
  if (version !== undefined) {
    if (!semver.test(version)) errors.push(invalid(`${path}.version`, version, 'must be a string compatible with semver.org spec 2.0.0'));
    if (Buffer.byteLength(version) > maxAttributeLength) errors.push(tooLong(`${path}.version`, maxAttributeLength));
  }
  const count = Object.values(attribute).filter((value) => value !== undefined).length;
  if (count !== 1) errors.push(invalid(path, count === 0 ? '' : attribute, 'exactly one value must be specified'));
}

export function validateDeviceTaintRule(errors: Errors, { spec }: DeviceTaintRule): void {
  const { driver, pool, device } = spec?.deviceSelector ?? {};
  if (driver !== undefined) validateDriverName(errors, 'spec.deviceSelector.driver', driver);
  if (pool !== undefined) validatePoolName(errors, 'spec.deviceSelector.pool', pool);
  if (device !== undefined) validateDNSLabel(errors, 'spec.deviceSelector.device', device);
  validateDeviceTaint(errors, 'spec.taint', spec?.taint ?? {});
}
