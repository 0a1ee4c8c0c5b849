import { isObject, own } from '../json.ts';
import { ParseError } from '../parse-error.ts';
import { addQuantity, Amount, compareQuantity, parseQuantity } from '../quantity.ts';
import { listAt, objectAt, withField, type Fields, type Rule } from './rule.ts';

/** Rounds every quantity of a resource list up to thousandths. What is no quantity is left for validation. */
const roundUp: Rule = (list) => {
  let result = list;
  for (const key of Object.keys(list)) {
    const text = list[key];
    if (typeof text !== 'string' && typeof text !== 'number') continue;
    try {
      const amount = parseQuantity(text);
      if (amount.nanos % 1_000_000n === 0n) continue;
      result = { ...result, [key]: Amount.ofNanos(amount.scaledBig(1000) * 1_000_000n, amount.format).toString() };
    } catch (error) {
      if (!(error instanceof ParseError)) throw error;
    }
  }
  return result;
};

/** Rounds the resource lists in the named fields. */
export const resourceLists =
  (...keys: readonly string[]): Rule =>
  (value) =>
    keys.reduce((current, key) => {
      const list = own(current, key);
      return isObject(list) ? withField(current, key, roundUp(list)) : current;
    }, value);

/** Adds to `list` what only `from` has. */
export function fill(list: Fields, from: Fields): Fields {
  let result = list;
  for (const key of Object.keys(from)) if (!Object.hasOwn(result, key)) result = { ...result, [key]: from[key] };
  return result;
}

/** Requests of a container that names limits only. */
export const requestsFromLimits: Rule = (container) => {
  const resources = objectAt(container, 'resources');
  if (own(resources, 'limits') === undefined) return container;
  const requests = objectAt(resources, 'requests');
  const filled = fill(requests, objectAt(resources, 'limits'));
  return filled === requests ? container : { ...container, resources: { ...resources, requests: filled } };
};

const isHugePages = (name: string) => name.startsWith('hugepages-');
const isPodLevel = (name: string) => name === 'cpu' || name === 'memory' || isHugePages(name);
type Sums = Map<string, Amount>;
const add = (sums: Sums, list: Fields) => {
  for (const name of Object.keys(list)) sums.set(name, addQuantity(sums.get(name) ?? '0', list[name] as string));
};
const raise = (sums: Sums, other: Iterable<readonly [string, Amount | string]>) => {
  for (const [name, amount] of other) {
    const current = sums.get(name);
    if (current === undefined || compareQuantity(amount, current) > 0) sums.set(name, parseQuantity(amount));
  }
};

/** What all containers ask for at the same time at most: sidecars count as containers, each init container alone beside those before it. */
function aggregate(spec: Fields, which: 'requests' | 'limits'): Sums {
  const listOf = (container: Fields) => objectAt(objectAt(container, 'resources'), which);
  const total: Sums = new Map();
  for (const container of listAt(spec, 'containers')) add(total, listOf(container));
  const sidecars: Sums = new Map();
  const peak: Sums = new Map();
  for (const container of listAt(spec, 'initContainers')) {
    const list = listOf(container);
    if (container['restartPolicy'] === 'Always') {
      add(total, list);
      add(sidecars, list);
      raise(peak, sidecars);
    } else {
      const together: Sums = new Map(sidecars);
      add(together, list);
      raise(peak, together);
    }
  }
  raise(total, peak);
  return total;
}

/** KEP-2837: pod-level requests and huge page limits that follow from what the containers and the pod-level limits say. */
export const podLevelResources: Rule = (spec) => {
  const given = own(spec, 'resources');
  if (!isObject(given)) return spec;
  let limits = objectAt(given, 'limits');
  let requests = objectAt(given, 'requests');
  if (Object.keys(limits).length === 0 && Object.keys(requests).length === 0) return spec;
  try {
    for (const [name, amount] of aggregate(spec, 'limits')) {
      if (isHugePages(name) && !Object.hasOwn(requests, name)) limits = fill(limits, { [name]: amount.toString() });
    }
    if (Object.keys(limits).length > 0) {
      for (const [name, amount] of aggregate(spec, 'requests')) {
        if (isPodLevel(name) && !isHugePages(name)) requests = fill(requests, { [name]: amount.toString() });
      }
      requests = fill(requests, Object.fromEntries(Object.entries(limits).filter(([name]) => isPodLevel(name))));
    }
  } catch (error) {
    // Not a quantity: validation says so.
    if (error instanceof ParseError) return spec;
    throw error;
  }
  let result = given;
  if (Object.keys(limits).length > 0) result = withField(result, 'limits', limits === objectAt(given, 'limits') ? given['limits'] : limits);
  if (Object.keys(requests).length > 0)
    result = withField(result, 'requests', requests === objectAt(given, 'requests') ? given['requests'] : requests);
  return withField(spec, 'resources', result);
};
