import { sizeOf, type CallEstimate, type CallRule, type Operand } from './call-rule.ts';
import { add, fixed, largest, listCreationCost, multiply, scale, traversalFactor, type Estimate } from './estimates.ts';

/** The estimate of a call that creates a list of a size, with a cost per element. */
const creation = (size: Estimate, factor: number): CallEstimate => ({
  cost: add(scale(size, factor), fixed(1), fixed(listCreationCost)),
  size,
});

/** Returns the value of a constant; `otherwise` for any other expression, and for a negative number a huge unsigned one, as upstream. */
function constantOf(operand: Operand | undefined, otherwise: number): number {
  const value = operand?.expr.kind === 'const' ? operand.expr.value : undefined;
  if (typeof value !== 'number' && typeof value !== 'bigint') return otherwise;
  return value < 0 ? largest : Number(value);
}

const selfComparison = (list: Operand | undefined, element: string | undefined): CallEstimate => {
  const size = sizeOf(list);
  return creation(multiply(size, size), element === 'string' || element === 'bytes' ? 2 + traversalFactor : 2);
};
const elementKind = (type: Operand['type'] | undefined): string | undefined => (type?.kind === 'list' ? type.element.kind : undefined);

const slice: CallRule = ({ target, args: [start, end] }) =>
  target && creation(fixed(Math.max(0, constantOf(end, sizeOf(target).max) - constantOf(start, 0))), 1);

/** The estimates of cel-go's library of lists by function name. */
export const listRules: ReadonlyMap<string, CallRule> = new Map<string, CallRule>([
  ['slice', slice],
  ['flatten', ({ target, args: [depth] }) => target && creation(sizeOf(target), depth === undefined ? 1 : constantOf(depth, largest))],
  ['lists.range', ({ args: [count] }) => creation(fixed(constantOf(count, largest)), 1)],
  ['reverse', ({ target, overload }) => (overload.params[0]?.kind === 'list' ? target && creation(sizeOf(target), 1) : undefined)],
  ['distinct', ({ target }) => selfComparison(target, undefined)],
  ['sort', ({ target, overload }) => selfComparison(target, elementKind(overload.params[0]))],
  ['@sortByAssociatedKeys', ({ args: [keys], overload }) => selfComparison(keys, elementKind(overload.params[1]))],
]);
