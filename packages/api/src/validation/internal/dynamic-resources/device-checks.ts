import {
  duplicate,
  fieldForbidden,
  invalid,
  notSupported,
  notSupportedInOrder,
  required,
  tooLong,
  tooMany,
} from '../../../field/field-error.ts';
import type { DeviceSelector, DeviceTaint, DeviceToleration, OpaqueDeviceConfiguration } from '../../../generated/types/resource-v1.ts';
import { isCIdentifier, isDns1123Subdomain, isLabelValue } from '../../../values/names.ts';
import { addInvalid, repeatedIndexes, validateEnum, validateQualifiedName, type Errors } from '../checks.ts';

/** The maximum number of requests, constraints, configurations, selectors and results of a claim. */
export const maxClaimItems = 32;
const maxOpaqueParameters = 10 * 1024;
const maxExpressionLength = 10 * 1024;
const maxDomainLength = 63;
const maxIdLength = 32;
const maxPoolNameLength = 253;
const maxBindingConditions = 4;
const taintEffects = ['NoExecute', 'NoSchedule', 'None'];

/** A list of a field, and the rules of its items. */
export interface ListRules<T> {
  readonly list: readonly T[];
  readonly max?: number;
  /** The identity of an item; items may repeat if absent. */
  readonly keyOf?: (item: T) => string;
  readonly validateItem: (item: T, path: string) => void;
}

/** Validates the size of a list, its items, and that no two items have the same key. Items of a list that is too long are not validated. */
export function validateList<T>(errors: Errors, path: string, { list, max, keyOf, validateItem }: ListRules<T>): void {
  if (max !== undefined && list.length > max) {
    errors.push(tooMany(path, list.length, max));
    return;
  }
  for (const [i, item] of list.entries()) validateItem(item, `${path}[${i}]`);
  if (keyOf === undefined) return;
  for (const i of repeatedIndexes(list, keyOf)) errors.push(duplicate(`${path}[${i}]`, keyOf(list[i] as T)));
}

/** A map of a field, and the rules of its keys and values. */
export interface MapRules<T> {
  readonly map: Readonly<Record<string, T>>;
  readonly max?: number;
  readonly validateKey: (errors: Errors, path: string, key: string) => void;
  readonly validateValue?: (value: T, path: string) => void;
}
export function validateMap<T>(errors: Errors, path: string, { map, max, validateKey, validateValue }: MapRules<T>): void {
  const entries = Object.entries(map);
  if (max !== undefined && entries.length > max) {
    errors.push(tooMany(path, entries.length, max));
    return;
  }
  for (const [key, value] of entries) {
    validateKey(errors, path, key);
    validateValue?.(value, `${path}[${key}]`);
  }
}

/** Validates the name of a driver (ValidateCSIDriverName of upstream). */
export function validateDriverName(errors: Errors, path: string, name = ''): void {
  if (name === '') errors.push(required(path));
  if (Buffer.byteLength(name) > maxDomainLength) errors.push(tooLong(path, maxDomainLength));
  addInvalid(errors, path, name, isDns1123Subdomain(name.toLowerCase()));
}

export function validatePoolName(errors: Errors, path: string, name = ''): void {
  if (name === '') {
    errors.push(required(path));
    return;
  }
  if (Buffer.byteLength(name) > maxPoolNameLength) errors.push(tooLong(path, maxPoolNameLength));
  for (const part of name.split('/')) addInvalid(errors, path, part, isDns1123Subdomain(part));
}

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
export function validateShareId(errors: Errors, path: string, id: string | undefined): void {
  if (id === undefined || uuid.test(id)) return;
  if (!uuid.test(id.toLowerCase())) errors.push(invalid(path, id, `error validating uid: ${uuidError(id)}`));
  else
    errors.push(
      invalid(
        path,
        id,
        'uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters',
      ),
    );
}
const uuidError = (id: string) => (id.length === 36 ? 'invalid UUID format' : `invalid UUID length: ${id.length}`);

/** Validates the name of an attribute or capacity: a C identifier, with or without a domain. */
export function validateQualifiedDeviceName(errors: Errors, path: string, name: string): void {
  const parts = name.split('/');
  const [domain = '', id = ''] = parts.length === 1 ? ['', name] : parts;
  if (parts.length > 2) {
    errors.push(invalid(path, name, 'must not contain more than one slash'));
    return;
  }
  if (parts.length === 2) {
    if (domain === '') errors.push(invalid(path, '', 'the domain must not be empty'));
    else validateDriverName(errors, path, domain);
    if (id === '') {
      errors.push(invalid(path, '', 'the name must not be empty'));
      return;
    }
  }
  if (id.length > maxIdLength) errors.push(tooLong(path, maxIdLength));
  addInvalid(errors, path, id, isCIdentifier(id));
}

/** Validates the name of an attribute with a domain, such as `example.com/model`. */
export function validateFullyQualifiedDeviceName(errors: Errors, path: string, name: string): void {
  validateQualifiedDeviceName(errors, path, name);
  if (!name.includes('/')) errors.push(invalid(path, name, 'a fully qualified name must be a domain and a name separated by a slash'));
}

export function validateSelectors(errors: Errors, path: string, list: readonly DeviceSelector[] = []): void {
  validateList(errors, path, {
    list,
    max: maxClaimItems,
    validateItem({ cel }, at) {
      if (cel === undefined) errors.push(required(`${at}.cel`));
      else if (!cel.expression) errors.push(required(`${at}.cel.expression`));
      else if (Buffer.byteLength(cel.expression) > maxExpressionLength) errors.push(tooLong(`${at}.cel.expression`, maxExpressionLength));
    },
  });
}

interface OpaqueRules {
  readonly opaque: OpaqueDeviceConfiguration | undefined;
  /** True for a configuration that did not change, whose size is not validated again. */
  readonly isStored?: boolean;
}
/** Validates the configuration of a device, which is opaque to Kubernetes. */
export function validateOpaque(errors: Errors, path: string, { opaque, isStored = false }: OpaqueRules): void {
  if (opaque === undefined) {
    errors.push(required(`${path}.opaque`));
    return;
  }
  validateDriverName(errors, `${path}.opaque.driver`, opaque.driver);
  validateRawObject(errors, `${path}.opaque.parameters`, {
    value: opaque.parameters,
    max: isStored ? Number.POSITIVE_INFINITY : maxOpaqueParameters,
  });
}

/** Validates a value that must be a JSON object of limited size (validateRawExtension of upstream). */
export function validateRawObject(errors: Errors, path: string, { value, max }: { readonly value: unknown; readonly max: number }): void {
  if (value === undefined || value === null) errors.push(required(path));
  else if (Buffer.byteLength(JSON.stringify(value)) > max) errors.push(tooLong(path, max));
  else if (typeof value !== 'object' || Array.isArray(value)) errors.push(invalid(path, '<value omitted>', 'must be a valid JSON object'));
}

export function validateDeviceTaint(errors: Errors, path: string, { key = '', value = '', effect }: Partial<DeviceTaint>): void {
  validateQualifiedName(errors, `${path}.key`, key);
  if (value !== '') addInvalid(errors, `${path}.value`, value, isLabelValue(value));
  validateEnum(errors, `${path}.effect`, effect, taintEffects);
}

/** Validates the tolerations of device taints (KEP-5055). */
export function validateDeviceTolerations(errors: Errors, path: string, list: readonly DeviceToleration[] = []): void {
  const max = 16;
  const validateItem = ({ key = '', operator = '', value = '', effect = '' }: DeviceToleration, at: string) => {
    if (key !== '') validateQualifiedName(errors, `${at}.key`, key);
    if (operator === 'Exists') {
      if (value !== '') errors.push(invalid(`${at}.value`, value, 'must be empty for operator `Exists`'));
    } else if (operator === 'Equal') addInvalid(errors, `${at}.value`, value, isLabelValue(value));
    else if (operator === '') errors.push(required(`${at}.operator`));
    else errors.push(notSupportedInOrder(`${at}.operator`, operator, ['Equal', 'Exists']));
    if (effect !== '' && !taintEffects.includes(effect)) errors.push(notSupported(`${at}.effect`, effect, taintEffects));
  };
  validateList(errors, path, { list, max, validateItem });
}

/** The conditions that a device needs before and during its use (KEP-5007). */
interface BindingConditions {
  readonly bindingConditions?: readonly string[];
  readonly bindingFailureConditions?: readonly string[];
}
export function validateBindingConditions(errors: Errors, path: string, conditions: BindingConditions): void {
  const { bindingConditions = [], bindingFailureConditions = [] } = conditions;
  const lists = { bindingConditions, bindingFailureConditions };
  for (const [name, list] of Object.entries(lists))
    validateList(errors, `${path}.${name}`, {
      list,
      max: maxBindingConditions,
      validateItem(condition, at) {
        validateQualifiedName(errors, at, condition);
      },
    });
  for (const [name, list] of Object.entries(lists))
    for (const i of repeatedIndexes(list)) errors.push(duplicate(`${path}.${name}[${i}]`, list[i]));
  const expected = new Set(bindingConditions);
  for (const [i, condition] of bindingFailureConditions.entries())
    if (expected.has(condition))
      errors.push(
        invalid(`${path}.bindingFailureConditions[${i}]`, condition, 'bindingFailureConditions must not overlap with bindingConditions'),
      );
  const missing = 'are required to use';
  if (bindingConditions.length === 0 && bindingFailureConditions.length > 0)
    errors.push(
      invalid(`${path}.bindingConditions`, conditions.bindingConditions, `bindingConditions ${missing} bindingFailureConditions`),
    );
  if (bindingFailureConditions.length === 0 && bindingConditions.length > 0)
    errors.push(
      invalid(
        `${path}.bindingFailureConditions`,
        conditions.bindingFailureConditions,
        `bindingFailureConditions ${missing} bindingConditions`,
      ),
    );
}

export const forbidRequestPolicy = (errors: Errors, path: string) =>
  errors.push(fieldForbidden(`${path}.requestPolicy`, 'allowMultipleAllocations must be true'));
