import { parseQuantity } from '@oarlock/api/values/quantity';
import type { Device, DeviceAttribute, DeviceSelector } from '@oarlock/api/types/resource-v1';
import { kubernetesEnvironment } from '@oarlock/cel/checker/environment';
import { compileDeviceSelector, maxSelectorCost } from '@oarlock/cel/device-selector';
import { QuantityValue } from '@oarlock/cel/libraries/quantity';
import { compile, type Program } from '@oarlock/cel/program';
import { string } from '@oarlock/cel/types/type';
import { CelMap, FieldMap, type Value } from '@oarlock/cel/values/value';
import { LruMap } from '@oarlock/primitives/collections/lru-map';

const versions = compile('semver(text)', kubernetesEnvironment({ variables: { text: string } })).program;

const programs = new LruMap<string, Program | Error>(1000);
const resultsByDevice = new WeakMap<Device, Map<string, boolean | Error>>();
const values = new WeakMap<Device, Value>();

function programOf(expression: string): Program | Error {
  let program = programs.get(expression);
  if (program === undefined) {
    const compiled = compileDeviceSelector(expression, { stored: true });
    program = compiled.program ?? new Error(`compile error: ${compiled.message}`);
    programs.set(expression, program);
  }
  return program;
}

function attributeValue({ bool: flag, int, string: text, version, bools, ints, strings, versions: many }: DeviceAttribute): Value {
  const versionOf = (text: string): Value => versions?.evaluate({ text }).value ?? text;
  if (version !== undefined) return versionOf(version);
  return flag ?? int ?? text ?? bools ?? ints ?? strings ?? many?.map(versionOf) ?? null;
}

/**
 * Returns attribute or capacity values by domain and name. A name without a domain belongs to the driver's domain; an unknown domain is an empty map.
 */
function byDomain(driver: string, entries: readonly (readonly [string, Value])[]): FieldMap {
  const domains = new Map<string, CelMap>();
  for (const [name, value] of entries) {
    const slash = name.indexOf('/');
    const domain = slash < 0 ? driver : name.slice(0, slash);
    let own = domains.get(domain);
    if (own === undefined) domains.set(domain, (own = new CelMap()));
    own.set(name.slice(slash + 1), value);
  }
  return new FieldMap({ get: (domain) => domains.get(domain) ?? new CelMap(), keys: () => [...domains.keys()] });
}

function valueOf(device: Device, driver: string): Value {
  let value = values.get(device);
  if (value === undefined) {
    const { attributes = {}, capacity = {}, allowMultipleAllocations = false } = device;
    const fields: Readonly<Record<string, Value>> = {
      driver,
      attributes: byDomain(
        driver,
        Object.entries(attributes).map(([name, each]) => [name, attributeValue(each)]),
      ),
      capacity: byDomain(
        driver,
        Object.entries(capacity).map(([name, each]) => [name, new QuantityValue(parseQuantity(each.value))]),
      ),
      allowMultipleAllocations,
    };
    value = new FieldMap({ get: (key) => fields[key], keys: () => Object.keys(fields) }, 'kubernetes.DRADevice');
    values.set(device, value);
  }
  return value;
}

function matches(device: Device, driver: string, expression: string): boolean | Error {
  let results = resultsByDevice.get(device);
  if (results === undefined) resultsByDevice.set(device, (results = new Map()));
  let result = results.get(expression);
  if (result === undefined) {
    const program = programOf(expression);
    if (program instanceof Error) result = program;
    else {
      const { value, error } = program.evaluate({ device: valueOf(device, driver) }, maxSelectorCost);
      result = error === undefined ? value === true : new Error(`runtime error: ${error.message}`);
    }
    results.set(expression, result);
  }
  return result;
}

/**
 * Returns true if all selectors match a device. Caches the result per device object.
 * @throws Error with `subject` and the index of the selector, if the evaluation of a selector fails
 */
export function matchesSelectors(selectors: readonly DeviceSelector[], device: Device, driver: string, subject: string): boolean {
  for (const [index, { cel }] of selectors.entries()) {
    if (cel === undefined) continue;
    const result = matches(device, driver, cel.expression);
    if (result instanceof Error) throw new Error(`${subject}: selector #${index}: CEL ${result.message}`, { cause: result });
    if (!result) return false;
  }
  return true;
}
