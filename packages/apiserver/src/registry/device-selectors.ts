import { fieldForbidden, invalid, type FieldError } from '@oarlock/api/field/field-error';
import { isObject, own } from '@oarlock/api/json/json';
import type { GroupVersionKind } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { compileDeviceSelector, estimateSelectorCost, maxSelectorCost } from '@oarlock/cel/device-selector';
import { LruMap } from '@oarlock/primitives/collections/lru-map';

/** The fields of resource.k8s.io kinds with device requests or selectors, from the spec on. */
const roots: Readonly<Record<string, readonly string[]>> = {
  DeviceClass: ['spec'],
  ResourceClaim: ['spec', 'devices'],
  ResourceClaimTemplate: ['spec', 'spec', 'devices'],
};
/** Longer expressions are rejected without a compilation. */
const maxExpressionLength = 10 * 1024;
/** The compilation error of an expression, or its estimated cost. */
interface CheckedSelector {
  readonly message: string | undefined;
  readonly cost: number;
}
const checkedSelectors = new LruMap<string, CheckedSelector>(1000);

function checkSelector(expression: string): CheckedSelector {
  let checked = checkedSelectors.get(expression);
  if (checked === undefined) {
    const { program, message } = compileDeviceSelector(expression);
    checked = { message, cost: program === undefined ? 0 : estimateSelectorCost(program) };
    checkedSelectors.set(expression, checked);
  }
  return checked;
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Yields the path and the expression of each selector below `value`, which is a request, a list of requests, or a class. */
function* selectorsOf(value: unknown, path: string): Generator<readonly [path: string, expression: string]> {
  if (!isObject(value)) return;
  for (const [i, selector] of listOf(own(value, 'selectors')).entries()) {
    const cel = isObject(selector) ? own(selector, 'cel') : undefined;
    const expression = isObject(cel) ? own(cel, 'expression') : undefined;
    if (typeof expression === 'string' && expression !== '') yield [`${path}.selectors[${i}].cel.expression`, expression];
  }
  yield* selectorsOf(own(value, 'exactly'), `${path}.exactly`);
  for (const list of ['requests', 'firstAvailable'])
    for (const [i, item] of listOf(own(value, list)).entries()) yield* selectorsOf(item, `${path}.${list}[${i}]`);
}

function selectorsIn(root: readonly string[], object: KubeObject): readonly (readonly [path: string, expression: string])[] {
  const value = root.reduce<unknown>((parent, field) => (isObject(parent) ? own(parent, field) : undefined), object);
  return [...selectorsOf(value, root.join('.'))];
}

/**
 * Returns the errors of the CEL selectors of device classes and claims that do not compile or cost too much. An expression that the old object
 * contains is not checked again.
 */
export function deviceSelectorErrors({ group, kind }: GroupVersionKind, object: KubeObject, old?: KubeObject): readonly FieldError[] {
  const root = group === 'resource.k8s.io' && Object.hasOwn(roots, kind) ? roots[kind] : undefined;
  if (root === undefined) return [];
  const known = new Set(old === undefined ? [] : selectorsIn(root, old).map(([, expression]) => expression));
  return selectorsIn(root, object).flatMap(([path, expression]) => {
    if (known.has(expression) || Buffer.byteLength(expression) > maxExpressionLength) return [];
    const { message, cost } = checkSelector(expression);
    if (message !== undefined) return [invalid(path, expression, message)];
    return cost > maxSelectorCost ? [fieldForbidden(path, 'too complex, exceeds cost limit')] : [];
  });
}
