import { parseQuantity } from '@oarlock/api/quantity';
import type { Device, DeviceAttribute, DeviceSelector } from '@oarlock/api/types/resource-v1';
import { kubernetesEnvironment } from '@oarlock/cel/environment';
import { QuantityValue } from '@oarlock/cel/lib-quantity';
import { compile, type Program } from '@oarlock/cel/program';
import { bool, dyn, map, object, opaque, string } from '@oarlock/cel/type';
import { CelMap, FieldMap, type Value } from '@oarlock/cel/value';
import { LruMap } from '@oarlock/client/lru-map';

const environment = kubernetesEnvironment({
  variables: {
    device: object('kubernetes.DRADevice', {
      driver: string,
      attributes: map(string, map(string, dyn)),
      capacity: map(string, map(string, opaque('kubernetes.Quantity'))),
      allowMultipleAllocations: bool,
    }),
  },
});
const versions = compile('semver(text)', kubernetesEnvironment({ variables: { text: string } })).program;

/** What one evaluation may cost, as upstream limits it. */
const costLimit = 1_000_000;
const programs = new LruMap<string, Program | Error>(1000);
const known = new WeakMap<Device, Map<string, boolean | Error>>();
const values = new WeakMap<Device, Value>();

function programOf(expression: string): Program | Error {
  let program = programs.get(expression);
  if (program === undefined) {
    const compiled = compile(expression, environment, { expect: [bool] });
    program = compiled.program ?? new Error(`compile error: ${compiled.message}`);
    programs.set(expression, program);
  }
  return program;
}

function attributeValue({ bool: flag, int, string: text, version, bools, ints, strings, versions: many }: DeviceAttribute): Value {
  const versionOf = (written: string): Value => versions?.evaluate({ text: written }).value ?? written;
  if (version !== undefined) return versionOf(version);
  return flag ?? int ?? text ?? bools ?? ints ?? strings ?? many?.map(versionOf) ?? null;
}

/** Values by domain and name. One without a domain is of the driver's; a domain that there is not is empty. */
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
  let answers = known.get(device);
  if (answers === undefined) known.set(device, (answers = new Map()));
  let answer = answers.get(expression);
  if (answer === undefined) {
    const program = programOf(expression);
    if (program instanceof Error) answer = program;
    else {
      const { value, error } = program.evaluate({ device: valueOf(device, driver) }, costLimit);
      answer = error === undefined ? value === true : new Error(`runtime error: ${error.message}`);
    }
    answers.set(expression, answer);
  }
  return answer;
}

/** Whether all selectors choose a device. What one device answered is remembered as long as the device is. @throws Error naming the selector that failed */
export function selects(selectors: readonly DeviceSelector[], device: Device, driver: string, whose: string): boolean {
  for (const [index, { cel }] of selectors.entries()) {
    if (cel === undefined) continue;
    const answer = matches(device, driver, cel.expression);
    if (answer instanceof Error) throw new Error(`${whose}: selector #${index}: CEL ${answer.message}`, { cause: answer });
    if (!answer) return false;
  }
  return true;
}
