import type { Program } from './program.ts';
import { Estimator } from './cost/estimator.ts';
import type { Estimate } from './cost/estimates.ts';
import type { DeclaredSize } from './types/declared-size.ts';

/** The maximum estimated cost of one rule of a CustomResourceDefinition, and of all rules of one definition. */
export const maxRuleCost = 10_000_000;
export const maxDefinitionCost = 100_000_000;
/** The maximum cost of one evaluation, and of all evaluations for one object or one admission request. */
export const perCallLimit = 1_000_000;
export const runtimeBudget = 10_000_000;
export const matchConditionsBudget = 2_500_000;

/**
 * Estimates the minimum and maximum cost of an evaluation, as Kubernetes does for the rules of CustomResourceDefinitions (checker.Cost of cel-go
 * with Kubernetes' CostEstimator). `root` is the declared size of all variables; without it, values of variable size are unbounded.
 */
export function estimateCost(program: Program, root?: DeclaredSize): Estimate {
  return new Estimator(program.checked, root).estimate(program.checked.expr).cost;
}
