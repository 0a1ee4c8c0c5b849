import { isRestartableInitContainer } from '../component-helpers/restartable-init-container.ts';
import { isObject, own } from '../json/json.ts';
import { ParseError } from '../values/parse-error.ts';
import { addQuantity, ParsedQuantity, compareQuantity, parseQuantity } from '../values/quantity.ts';
import { listAt, objectAt, withField, type Fields, type DefaultingRule } from './defaulting-rule.ts';

/** Rounds every quantity of a resource list up to thousandths. Invalid quantities are unchanged; validation rejects them. */
const roundUp: DefaultingRule = (list) => {
  let rounded: Record<string, unknown> | undefined;
  for (const key of Object.keys(list)) {
    const text = list[key];
    if (typeof text !== 'string' && typeof text !== 'number') continue;
    try {
      const amount = parseQuantity(text);
      if (amount.nanos % 1_000_000n === 0n) continue;
      rounded ??= { ...list };
      rounded[key] = ParsedQuantity.ofNanos(amount.scaledBig(1000) * 1_000_000n, amount.format).toString();
    } catch (error) {
      if (!(error instanceof ParseError)) throw error;
    }
  }
  return rounded ?? list;
};

/** Returns a rule that rounds the resource lists in the given fields. */
export const resourceLists =
  (...keys: readonly string[]): DefaultingRule =>
  (value) =>
    keys.reduce((current, key) => {
      const list = own(current, key);
      return isObject(list) ? withField(current, key, roundUp(list)) : current;
    }, value);

/** Returns `list` with the entries of `from` that it does not contain. */
export function fill(list: Fields, from: Fields): Fields {
  const missing = Object.keys(from).filter((key) => !Object.hasOwn(list, key));
  return missing.length === 0 ? list : { ...list, ...Object.fromEntries(missing.map((key) => [key, from[key]])) };
}

/** Sets the missing requests of a container to its limits. */
export const requestsFromLimits: DefaultingRule = (container) => {
  const resources = objectAt(container, 'resources');
  if (own(resources, 'limits') === undefined) return container;
  const requests = objectAt(resources, 'requests');
  const filled = fill(requests, objectAt(resources, 'limits'));
  return filled === requests ? container : { ...container, resources: { ...resources, requests: filled } };
};

const isHugePages = (name: string) => name.startsWith('hugepages-');
const isPodLevel = (name: string) => name === 'cpu' || name === 'memory' || isHugePages(name);
type Sums = Map<string, ParsedQuantity>;
const add = (sums: Sums, list: Fields) => {
  for (const name of Object.keys(list)) sums.set(name, addQuantity(sums.get(name) ?? '0', list[name] as string));
};
const raise = (sums: Sums, other: Iterable<readonly [string, ParsedQuantity | string]>) => {
  for (const [name, amount] of other) {
    const current = sums.get(name);
    if (current === undefined || compareQuantity(amount, current) > 0) sums.set(name, parseQuantity(amount));
  }
};

/**
 * Returns the maximum resources that the containers of a pod need at the same time. Sidecars run beside all containers; other init containers run
 * one at a time, beside the sidecars that were started before.
 */
function aggregate(spec: Fields, which: 'requests' | 'limits'): Sums {
  const listOf = (container: Fields) => objectAt(objectAt(container, 'resources'), which);
  const total: Sums = new Map();
  for (const container of listAt(spec, 'containers')) add(total, listOf(container));
  const sidecars: Sums = new Map();
  const peak: Sums = new Map();
  for (const container of listAt(spec, 'initContainers')) {
    const list = listOf(container);
    if (isRestartableInitContainer(container)) {
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

/** Sets the pod-level requests and huge page limits from those of the containers and from the pod-level limits (KEP-2837). */
export const podLevelResources: DefaultingRule = (spec) => {
  const podResources = own(spec, 'resources');
  if (!isObject(podResources)) return spec;
  let limits = objectAt(podResources, 'limits');
  let requests = objectAt(podResources, 'requests');
  if (Object.keys(limits).length === 0 && Object.keys(requests).length === 0) return spec;
  try {
    const ofContainers = (which: 'requests' | 'limits', isSelected: (name: string) => boolean) =>
      Object.fromEntries([...aggregate(spec, which)].flatMap(([name, amount]) => (isSelected(name) ? [[name, amount.toString()]] : [])));
    limits = fill(
      limits,
      ofContainers('limits', (name) => isHugePages(name) && !Object.hasOwn(requests, name)),
    );
    if (Object.keys(limits).length > 0) {
      requests = fill(
        requests,
        ofContainers('requests', (name) => isPodLevel(name) && !isHugePages(name)),
      );
      requests = fill(requests, Object.fromEntries(Object.entries(limits).filter(([name]) => isPodLevel(name))));
    }
  } catch (error) {
    // An invalid quantity is reported by validation.
    if (error instanceof ParseError) return spec;
    throw error;
  }
  let result = podResources;
  if (Object.keys(limits).length > 0)
    result = withField(result, 'limits', limits === objectAt(podResources, 'limits') ? podResources['limits'] : limits);
  if (Object.keys(requests).length > 0)
    result = withField(result, 'requests', requests === objectAt(podResources, 'requests') ? podResources['requests'] : requests);
  return withField(spec, 'resources', result);
};
