import { podAmounts } from '@oarlock/api/pod-resources';
import { compareQuantity, formatQuantity, milliValue, value, type Amount } from '@oarlock/api/quantity';
import type { LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod } from '@oarlock/api/types/core-v1';

type Quantity = string | number | Amount;
interface Asked {
  request(name: string): Quantity | undefined;
  limit(name: string): Quantity | undefined;
}
const text = (quantity: Quantity) => formatQuantity(quantity as Amount);
const compare = (a: Quantity, b: Quantity) => compareQuantity(a as Amount, b as Amount);

function tooLittle(type: string, name: string, least: Quantity, { request, limit }: Asked): string | undefined {
  const rule = `minimum ${name} usage per ${type} is ${text(least)}`;
  const [asked, limited] = [request(name), limit(name)];
  if (asked === undefined) return `${rule}.  No request is specified`;
  if (compare(asked, least) < 0) return `${rule}, but request is ${text(asked)}`;
  return limited !== undefined && compare(limited, least) < 0 ? `${rule}, but limit is ${text(limited)}` : undefined;
}

function tooMuch(type: string, name: string, most: Quantity, { request, limit }: Asked): string | undefined {
  const rule = `maximum ${name} usage per ${type} is ${text(most)}`;
  const [asked, limited] = [request(name), limit(name)];
  if (limited === undefined) return `${rule}.  No limit is specified`;
  if (compare(limited, most) > 0) return `${rule}, but limit is ${text(limited)}`;
  return asked !== undefined && compare(asked, most) > 0 ? `${rule}, but request is ${text(asked)}` : undefined;
}

function tooWide(type: string, name: string, widest: Quantity, { request, limit }: Asked): string | undefined {
  const rule = `${name} max limit to request ratio per ${type} is ${text(widest)}`;
  const [asked, limited] = [request(name), limit(name)];
  if (asked === undefined || value(asked as Amount) === 0) return `${rule}, but no request is specified or request is 0`;
  if (limited === undefined || value(limited as Amount) === 0) return `${rule}, but no limit is specified or limit is 0`;
  const small = Math.abs(value(limited as Amount)) < 2 ** 50;
  const of = small ? milliValue : value;
  const ratio = of(limited as Amount) / of(asked as Amount);
  return ratio > milliValue(widest as Amount) / 1000 ? `${rule}, but provided ratio is ${ratio.toFixed(6)}` : undefined;
}

function* faultsOf({ type, min = {}, max = {}, maxLimitRequestRatio = {} }: LimitRangeItem, asked: Asked): Generator<string | undefined> {
  for (const [name, least] of Object.entries(min)) yield tooLittle(type, name, least, asked);
  for (const [name, most] of Object.entries(max)) yield tooMuch(type, name, most, asked);
  for (const [name, widest] of Object.entries(maxLimitRequestRatio)) yield tooWide(type, name, widest, asked);
}

function together(faults: Iterable<string | undefined>): string | undefined {
  const found = [...new Set(faults)].filter((fault) => fault !== undefined);
  return found.length > 1 ? `[${found.join(', ')}]` : found[0];
}

/** What is wrong with a pod, in upstream's words; undefined when nothing is. */
export function podFault(pod: Pod, { spec: range }: LimitRange): string | undefined {
  const { spec } = pod;
  return together(
    (function* () {
      for (const item of range?.limits ?? []) {
        if (item.type === 'Container') {
          for (const { resources } of [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])])
            yield* faultsOf(item, { request: (name) => resources?.requests?.[name], limit: (name) => resources?.limits?.[name] });
        } else if (item.type === 'Pod') {
          const requests = podAmounts(pod, 'requests', { overhead: false });
          const limits = podAmounts(pod, 'limits', { overhead: false });
          yield* faultsOf(item, { request: (name) => requests.get(name), limit: (name) => limits.get(name) });
        }
      }
    })(),
  );
}

/** The same of a claim, where only requests count. */
export function claimFault({ spec }: PersistentVolumeClaim, { spec: range }: LimitRange): string | undefined {
  const request = (name: string) => spec?.resources?.requests?.[name];
  return together(
    (function* () {
      for (const { type, min = {}, max = {} } of range?.limits ?? []) {
        if (type !== 'PersistentVolumeClaim') continue;
        for (const [name, least] of Object.entries(min)) yield tooLittle(type, name, least, { request, limit: () => undefined });
        for (const [name, most] of Object.entries(max)) {
          const asked = request(name);
          const rule = `maximum ${name} usage per ${type} is ${text(most)}`;
          if (asked === undefined) yield `${rule}.  No request is specified`;
          else if (compare(asked, most) > 0) yield `${rule}, but request is ${text(asked)}`;
        }
      }
    })(),
  );
}
