import { duplicate, fieldForbidden, invalid } from '../field-error.ts';
import type { LimitRange, LimitRangeItem } from '../generated/types/core-v1.ts';
import type { Quantity } from '../generated/types/meta-v1.ts';
import { compareQuantity, milliValue, parseQuantity } from '../quantity.ts';
import type { Errors } from './checks.ts';

type Bound = 'min' | 'max' | 'default' | 'defaultRequest';
/** No `low` may be above its `high`; what is at fault stands at `at`, and `shown` is its value there. */
const orders: readonly { readonly low: Bound; readonly high: Bound; readonly at: Bound; readonly shown: Bound }[] = [
  { low: 'min', high: 'max', at: 'min', shown: 'min' },
  { low: 'min', high: 'defaultRequest', at: 'defaultRequest', shown: 'defaultRequest' },
  { low: 'defaultRequest', high: 'max', at: 'defaultRequest', shown: 'defaultRequest' },
  { low: 'defaultRequest', high: 'default', at: 'defaultRequest', shown: 'defaultRequest' },
  { low: 'min', high: 'default', at: 'default', shown: 'min' },
  { low: 'default', high: 'max', at: 'default', shown: 'max' },
];
const words: Readonly<Record<Bound, string>> = { min: 'min', max: 'max', default: 'default', defaultRequest: 'default request' };

function value(limit: LimitRangeItem, bound: Bound | 'maxLimitRequestRatio', name: string): Quantity | undefined {
  const list = limit[bound];
  return list !== undefined && Object.hasOwn(list, name) ? list[name] : undefined;
}
const plain = (quantity: Quantity) => parseQuantity(quantity).toString();

function inOrder(errors: Errors, path: string, limit: LimitRangeItem, name: string): void {
  for (const { low, high, at, shown } of orders) {
    const [a, b] = [value(limit, low, name), value(limit, high, name)];
    if (a === undefined || b === undefined || compareQuantity(a, b) <= 0) continue;
    const upper = high === 'default' && low === 'defaultRequest' ? 'default limit' : words[high];
    const text = `${words[low]} value ${plain(a)} is greater than ${upper} value ${plain(b)}`;
    errors.push(invalid(`${path}.${at}[${name}]`, plain(shown === low ? a : b), text));
  }
}

function ratio(errors: Errors, path: string, limit: LimitRangeItem, name: string): void {
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

export function limitRange(errors: Errors, { spec }: LimitRange): void {
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
      inOrder(errors, path, limit, name);
      ratio(errors, path, limit, name);
    }
  }
}
