import type { Comprehension } from '../syntax/ast.ts';
import { add, fixed, listCreationCost, mapCreationCost, multiply, range, union, unknownEstimate, type Estimate } from './estimates.ts';
import { isScalar, joinedEntry, type EntrySize, type LocalEstimate, type NodeEstimate, type NodeEstimator } from './node-estimate.ts';

/** The steps into which a macro expands: the initial value of the accumulator, one iteration, and the result. */
interface Fold {
  /** The cost of the initial value: 0 for a literal, more for an empty list or map. */
  readonly init: number;
  readonly each: Estimate;
  readonly result: number;
  /** The sizes of the entries of the result; undefined if they are not known. */
  readonly entry?: EntrySize | undefined;
}

/** Estimates a comprehension: the costs of its range, of its initial value and its result, and of one iteration for each element. */
export function estimateComprehension(estimator: NodeEstimator, expr: Comprehension): NodeEstimate {
  const rangeNode = estimator.estimate(expr.range);
  const [first, second] = estimator.checked.slots(expr);
  const local = (part: 'key' | 'value') => elementOf(estimator, { expr, node: rangeNode, part });
  const isList = containerOf(estimator, expr, rangeNode) === 'list';
  estimator.declare(first, second === undefined && isList ? local('value') : local('key'));
  if (second !== undefined) estimator.declare(second, local('value'));
  const filter = expr.filter === undefined ? undefined : estimator.estimate(expr.filter);
  const body = estimator.estimate(expr.body);
  const fold = foldOf(expr, { filter: filter?.cost, body, element: elementSize(estimator, expr, isList ? local('value') : local('key')) });
  const count = rangeNode.size ?? unknownEstimate;
  return {
    cost: add(rangeNode.cost, fixed(fold.init), multiply(count, fold.each), fixed(fold.result)),
    size: fold.init === 0 ? fixed(1) : count,
    entry: fold.entry,
    path: undefined,
  };
}

const containerOf = (estimator: NodeEstimator, { range: of }: Comprehension, { entry }: NodeEstimate): 'list' | 'map' =>
  entry?.container ?? (estimator.checked.typeOf(of).kind === 'list' ? 'list' : 'map');

interface RangeElement {
  readonly expr: Comprehension;
  readonly node: NodeEstimate;
  readonly part: 'key' | 'value';
}

/** Returns what is known of the keys (or indexes), or of the values of the range of a comprehension. */
function elementOf(estimator: NodeEstimator, { expr, node, part }: RangeElement): LocalEstimate {
  const isList = containerOf(estimator, expr, node) === 'list';
  const step = part === 'key' ? (isList ? '@indices' : '@keys') : isList ? '@items' : '@values';
  return { size: node.entry?.[part], entry: undefined, path: [...(node.path ?? []), step] };
}

/** Returns the size of the first variable of a comprehension. */
function elementSize(estimator: NodeEstimator, { range: of }: Comprehension, { path, size }: LocalEstimate): Estimate | undefined {
  const type = estimator.checked.typeOf(of);
  const element = type.kind === 'list' ? type.element : type.kind === 'map' ? type.key : type;
  return estimator.declaredSize(path) ?? (isScalar(element) ? fixed(1) : size);
}

interface FoldParts {
  readonly filter: Estimate | undefined;
  readonly body: NodeEstimate;
  readonly element: Estimate | undefined;
}

function foldOf({ macro }: Comprehension, { filter, body, element }: FoldParts): Fold {
  const { cost } = body;
  /** Adds a value to the accumulator if the filter, if any, is true. Otherwise, the accumulator is read. */
  const appended = (step: Estimate): Estimate => (filter === undefined ? step : add(filter, union(step, fixed(1))));
  const empty: EntrySize = { container: 'list', key: fixed(1), value: fixed(0) };
  const listOf = (size: Estimate | undefined) => joinedEntry(empty, { ...empty, value: size ?? unknownEstimate });
  switch (macro) {
    case 'all':
      return { init: 0, each: range(3, 3 + cost.max), result: 1 };
    case 'exists':
      return { init: 0, each: range(4, 4 + cost.max), result: 1 };
    case 'existsOne':
      return { init: 0, each: add(cost, range(1, 2)), result: 2 };
    case 'filter':
      return { init: listCreationCost, each: add(cost, range(1, 13)), result: 1, entry: listOf(element) };
    case 'map':
    case 'transformList':
      return { init: listCreationCost, each: appended(add(cost, fixed(12))), result: 1, entry: listOf(body.size) };
    case 'transformMap':
      return { init: mapCreationCost, each: appended(add(cost, fixed(3))), result: 1 };
    case 'transformMapEntry':
      return { init: mapCreationCost, each: appended(add(cost, fixed(2))), result: 1 };
  }
}
