import { duplicate, fieldForbidden, invalid } from '../../../field/field-error.ts';
import type { LimitRange, LimitRangeItem } from '../../../generated/types/core-v1.ts';
import type { Quantity } from '../../../generated/types/meta-v1.ts';
import { compareQuantity, milliValue, parseQuantity } from '../../../values/quantity.ts';
import type { Errors } from '../checks.ts';

type Bound = 'min' | 'max' | 'default' | 'defaultRequest';
/** Pairs of bounds with `low` <= `high`. An error names the bound `at` with the value of the bound `shown`. */
const orders: readonly { readonly low: Bound; readonly high: Bound; readonly at: Bound; readonly reportedValue: Bound }[] = [
  { low: 'min', high: 'max', at: 'min', reportedValue: 'min' },
  { low: 'min', high: 'defaultRequest', at: 'defaultRequest', reportedValue: 'defaultRequest' },
  { low: 'defaultRequest', high: 'max', at: 'defaultRequest', reportedValue: 'defaultRequest' },
  { low: 'defaultRequest', high: 'default', at: 'defaultRequest', reportedValue: 'defaultRequest' },
  { low: 'min', high: 'default', at: 'default', reportedValue: 'min' },
  { low: 'default', high: 'max', at: 'default', reportedValue: 'max' },
];
const words: Readonly<Record<Bound, string>> = { min: 'min', max: 'max', default: 'default', defaultRequest: 'default request' };

function value(limit: LimitRangeItem, bound: Bound | 'maxLimitRequestRatio', name: string): Quantity | undefined {
  const list = limit[bound];
  return list !== undefined && Object.hasOwn(list, name) ? list[name] : undefined;
}
const plain = (quantity: Quantity) => parseQuantity(quantity).toString();

function validateBoundOrder(errors: Errors, path: string, limit: LimitRangeItem, name: string): void {
  for (const { low, high, at, reportedValue } of orders) {
    const [a, b] = [value(limit, low, name), value(limit, high, name)];
    if (a === undefined || b === undefined || compareQuantity(a, b) <= 0) continue;
    const upper = high === 'default' && low === 'defaultRequest' ? 'default limit' : words[high];
    const text = `${words[low]} value ${plain(a)} is greater than ${upper} value ${plain(b)}`;
    errors.push(invalid(`${path}.${at}[${name}]`, plain(reportedValue === low ? a : b), text));
  }
}

function validateRatio(errors: Errors, path: string, limit: LimitRangeItem, name: string): void {
  const most = value(limit, 'maxLimitRequestRatio', name);
  if (most === undefined) return;
  const at = `${path}.maxLimitRequestRatio[${name}]`;
  if (compareQuantity(most, '1') < 0) errors.push(invalid(at, plain(most), `ratio ${plain(most)} is less than 1`));
  const [min, max] = [value(limit, 'min', name), value(limit, 'max', name)];
  if (min === undefined || max === undefined) return;
  const possible = milliValue(max) / milliValue(min);
  if (milliValue(most) / 1000 > possible)
    errors.push(invalid(at, plain(most), `ratio ${plain(most)} is greater than max/min = ${possible.toFixed(6)}`));
}

export function validateLimitRange(errors: Errors, { spec }: LimitRange): void {
  const seen = new Set<string>();
  for (const [i, limit] of (spec?.limits ?? []).entries()) {
    const path = `spec.limits[${i}]`;
    if (seen.has(limit.type)) errors.push(duplicate(`${path}.type`, limit.type));
    seen.add(limit.type);
    if (limit.type === 'Pod')
      for (const key of ['default', 'defaultRequest'] as const)
        if (Object.keys(limit[key] ?? {}).length > 0)
          errors.push(fieldForbidden(`${path}.${key}`, "may not be specified when `type` is 'Pod'"));
    const names = new Set(
      (['min', 'max', 'default', 'defaultRequest', 'maxLimitRequestRatio'] as const).flatMap((key) => Object.keys(limit[key] ?? {})),
    );
    for (const name of names) {
      validateBoundOrder(errors, path, limit, name);
      validateRatio(errors, path, limit, name);
    }
  }
}
