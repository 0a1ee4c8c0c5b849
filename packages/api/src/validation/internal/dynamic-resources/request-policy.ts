import { duplicate, fieldForbidden, invalid, required, tooMany } from '../../../field/field-error.ts';
import type { CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity } from '../../../generated/types/resource-v1.ts';
import { parseQuantity, type ParsedQuantity } from '../../../values/quantity.ts';
import { repeatedIndexes, type Errors } from '../checks.ts';

const maxValidValues = 10;
const maxInt64 = 2n ** 63n - 1n;

/** Validates how much of a shared capacity a request consumes (KEP-5075). */
export function validateRequestPolicy(errors: Errors, path: string, { value, requestPolicy: policy }: DeviceCapacity): void {
  if (policy === undefined) return;
  const { validValues = [], validRange } = policy;
  if (validValues.length > 0 && validRange !== undefined) {
    errors.push(
      fieldForbidden(path, 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'),
    );
    return;
  }
  const form = validValues.length > 0 ? 'validValues' : 'validRange';
  if (validValues.length === 0 && validRange === undefined) return;
  if (policy.default === undefined) errors.push(required(`${path}.default`, `required when ${form} is defined`));
  else if (validRange === undefined) validateValidValues(errors, `${path}.validValues`, { policy, capacity: parseQuantity(value) });
  else
    validateRange(errors, `${path}.validRange`, {
      range: validRange,
      standard: parseQuantity(policy.default),
      capacity: parseQuantity(value),
    });
}

interface Values {
  readonly policy: CapacityRequestPolicy;
  readonly capacity: ParsedQuantity;
}
function validateValidValues(errors: Errors, path: string, { policy, capacity }: Values): void {
  const standard = parseQuantity(policy.default ?? '0');
  const values = (policy.validValues ?? []).map((value) => parseQuantity(value));
  for (const [i, value] of values.entries()) {
    const next = values[i + 1];
    if (next !== undefined && value.compare(next) > 0)
      errors.push(invalid(`${path}[${i + 1}]`, next.toString(), 'values must be sorted in ascending order'));
  }
  let hasDefault = false;
  if (values.length > maxValidValues) errors.push(tooMany(path, values.length, maxValidValues));
  else {
    for (const [i, value] of values.entries()) {
      if (value.compare(capacity) > 0)
        errors.push(invalid(`${path}[${i}]`, value.toString(), `option is larger than capacity value: ${capacity.toString()}`));
      if (value.compare(standard) === 0) hasDefault = true;
    }
    const keyOf = (value: ParsedQuantity) => wholeOf(value);
    for (const i of repeatedIndexes(values, keyOf)) errors.push(duplicate(`${path}[${i}]`, String(keyOf(values[i] as ParsedQuantity))));
  }
  if (!hasDefault) errors.push(invalid(path, standard.toString(), 'default value is not valid according to the requestPolicy'));
}

const nanosPerUnit = 1_000_000_000n;
/** Returns the value as a whole number, rounded up. */
const wholeOf = ({ nanos }: ParsedQuantity): bigint => nanos / nanosPerUnit + (nanos > 0n && nanos % nanosPerUnit !== 0n ? 1n : 0n);

interface Range {
  readonly range: CapacityRequestPolicyRange;
  readonly standard: ParsedQuantity;
  readonly capacity: ParsedQuantity;
}
function validateRange(errors: Errors, path: string, { range, standard, capacity }: Range): void {
  if ((range.min as string | undefined) === undefined) {
    errors.push(required(`${path}.min`, 'required when validRange is defined'));
    return;
  }
  const min = parseQuantity(range.min);
  const max = range.max === undefined ? undefined : parseQuantity(range.max);
  const add = (name: string, value: ParsedQuantity, detail: string) => errors.push(invalid(`${path}.${name}`, value.toString(), detail));
  const limit = `larger than capacity value: ${capacity.toString()}`;
  if (min.compare(capacity) > 0) add('min', min, `min is ${limit}`);
  if (standard.compare(min) < 0) add('default', standard, `default is less than min: ${min.toString()}`);
  if (max !== undefined) {
    if (min.compare(max) > 0) add('max', min, `min is larger than max: ${max.toString()}`);
    if (max.compare(capacity) > 0) add('max', max, `max is ${limit}`);
    if (standard.compare(max) > 0) add('default', standard, `default is more than max: ${max.toString()}`);
  }
  if (range.step === undefined) return;
  const step = parseQuantity(range.step);
  if (step.sign <= 0) {
    add('step', step, 'must be greater than zero');
    return;
  }
  const added = min.plus(step);
  if (added.compare(capacity) > 0) add('step', step, `one step ${added.toString()} is ${limit}`);
  const bounds = Object.entries({ default: standard, min, ...(max && { max }), step });
  const errorsBefore = errors.length;
  for (const [name, value] of bounds) {
    if (value.sign < 0) add(name, value, 'must be greater than or equal to 0');
    else if (wholeOf(value) > maxInt64) add(name, value, `must not be larger than ${maxInt64}`);
  }
  if (errors.length > errorsBefore) return;
  for (const value of [standard, ...(max ? [max] : [])])
    if ((wholeOf(value) - wholeOf(min)) % wholeOf(step) !== 0n)
      add('step', value, `value is not a multiple of a given step (${step.toString()}) from (${min.toString()})`);
}
