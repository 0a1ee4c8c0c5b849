import { podResources } from '@oarlock/api/component-helpers/pod-resources';
import { compareQuantity, formatQuantity, milliValue, quantityValue, type ParsedQuantity } from '@oarlock/api/values/quantity';
import type { LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';

type Quantity = string | number | ParsedQuantity;
interface RequestAndLimit {
  request(name: string): Quantity | undefined;
  limit(name: string): Quantity | undefined;
}
const text = (quantity: Quantity) => formatQuantity(quantity as ParsedQuantity);
const compare = (a: Quantity, b: Quantity) => compareQuantity(a as ParsedQuantity, b as ParsedQuantity);

function minConstraint(
  type: string,
  {
    name,
    least,
    requestAndLimit: { request, limit },
  }: { readonly name: string; readonly least: Quantity; readonly requestAndLimit: RequestAndLimit },
): string | undefined {
  const rule = `minimum ${name} usage per ${type} is ${text(least)}`;
  const [requested, limited] = [request(name), limit(name)];
  if (requested === undefined) return `${rule}.  No request is specified`;
  if (compare(requested, least) < 0) return `${rule}, but request is ${text(requested)}`;
  return limited !== undefined && compare(limited, least) < 0 ? `${rule}, but limit is ${text(limited)}` : undefined;
}

function maxConstraint(
  type: string,
  {
    name,
    most,
    requestAndLimit: { request, limit },
  }: { readonly name: string; readonly most: Quantity; readonly requestAndLimit: RequestAndLimit },
): string | undefined {
  const rule = `maximum ${name} usage per ${type} is ${text(most)}`;
  const [requested, limited] = [request(name), limit(name)];
  if (limited === undefined) return `${rule}.  No limit is specified`;
  if (compare(limited, most) > 0) return `${rule}, but limit is ${text(limited)}`;
  return requested !== undefined && compare(requested, most) > 0 ? `${rule}, but request is ${text(requested)}` : undefined;
}

function limitRequestRatioConstraint(
  type: string,
  {
    name,
    widest,
    requestAndLimit: { request, limit },
  }: { readonly name: string; readonly widest: Quantity; readonly requestAndLimit: RequestAndLimit },
): string | undefined {
  const rule = `${name} max limit to request ratio per ${type} is ${text(widest)}`;
  const [requested, limited] = [request(name), limit(name)];
  if (requested === undefined || quantityValue(requested as ParsedQuantity) === 0)
    return `${rule}, but no request is specified or request is 0`;
  if (limited === undefined || quantityValue(limited as ParsedQuantity) === 0) return `${rule}, but no limit is specified or limit is 0`;
  const small = Math.abs(quantityValue(limited as ParsedQuantity)) < 2 ** 50;
  const of = small ? milliValue : quantityValue;
  const ratio = of(limited as ParsedQuantity) / of(requested as ParsedQuantity);
  return ratio > milliValue(widest as ParsedQuantity) / 1000 ? `${rule}, but provided ratio is ${ratio.toFixed(6)}` : undefined;
}

/** Returns the entries by name, so that the order of messages does not depend on how the LimitRange was written; upstream's order is random. */
const sortedEntries = <V>(list: Readonly<Record<string, V>>): readonly (readonly [string, V])[] =>
  Object.entries(list).sort(([a], [b]) => (a < b ? -1 : 1));

function* limitViolations(
  { type, min = {}, max = {}, maxLimitRequestRatio = {} }: LimitRangeItem,
  requested: RequestAndLimit,
): Generator<string | undefined> {
  for (const [name, least] of sortedEntries(min)) yield minConstraint(type, { name, least, requestAndLimit: requested });
  for (const [name, most] of sortedEntries(max)) yield maxConstraint(type, { name, most, requestAndLimit: requested });
  for (const [name, widest] of sortedEntries(maxLimitRequestRatio))
    yield limitRequestRatioConstraint(type, { name, widest, requestAndLimit: requested });
}

function joinViolations(faults: Iterable<string | undefined>): string | undefined {
  const found = [...new Set(faults)].filter((fault) => fault !== undefined);
  return found.length > 1 ? `[${found.join(', ')}]` : found[0];
}

/** Returns how a pod violates a LimitRange, in upstream's words; undefined if the pod does not violate it. */
export function podLimitViolation(pod: Pod, { spec: range }: LimitRange): string | undefined {
  const { spec } = pod;
  return joinViolations(
    (function* () {
      for (const item of range?.limits ?? []) {
        if (item.type === 'Container') {
          for (const { resources } of [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])])
            yield* limitViolations(item, { request: (name) => resources?.requests?.[name], limit: (name) => resources?.limits?.[name] });
        } else if (item.type === 'Pod') {
          const requests = podResources(pod, 'requests', { overhead: false });
          const limits = podResources(pod, 'limits', { overhead: false });
          yield* limitViolations(item, { request: (name) => requests.get(name), limit: (name) => limits.get(name) });
        }
      }
    })(),
  );
}

/** Returns how a PersistentVolumeClaim violates a LimitRange; undefined if it does not. Only the requests of a claim are limited. */
export function claimLimitViolation({ spec }: PersistentVolumeClaim, { spec: range }: LimitRange): string | undefined {
  const request = (name: string) => spec?.resources?.requests?.[name];
  return joinViolations(
    (function* () {
      for (const { type, min = {}, max = {} } of range?.limits ?? []) {
        if (type !== 'PersistentVolumeClaim') continue;
        for (const [name, least] of sortedEntries(min))
          yield minConstraint(type, { name, least, requestAndLimit: { request, limit: () => undefined } });
        for (const [name, most] of sortedEntries(max)) {
          const requested = request(name);
          const rule = `maximum ${name} usage per ${type} is ${text(most)}`;
          if (requested === undefined) yield `${rule}.  No request is specified`;
          else if (compare(requested, most) > 0) yield `${rule}, but request is ${text(requested)}`;
        }
      }
    })(),
  );
}
