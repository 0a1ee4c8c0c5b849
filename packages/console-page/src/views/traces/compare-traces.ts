import type { Trace } from '../object/trace/trace-rows.ts';

/** The time that steps of one name took on the critical path of each of two traces, in milliseconds; undefined where the step is absent. */
export interface StepDifference {
  readonly what: string;
  readonly a: number | undefined;
  readonly b: number | undefined;
  /** How much longer the step took in `b`. */
  readonly difference: number;
}

function totalsOf({ criticalSteps }: Trace): ReadonlyMap<string, number> {
  const totals = new Map<string, number>();
  for (const { what, ms } of criticalSteps) totals.set(what, (totals.get(what) ?? 0) + ms);
  return totals;
}

/** Returns the steps of the critical paths of two traces, the largest difference first. */
export function compareTraces(a: Trace, b: Trace): readonly StepDifference[] {
  const [left, right] = [totalsOf(a), totalsOf(b)];
  return [...new Set([...left.keys(), ...right.keys()])]
    .map((what) => ({ what, a: left.get(what), b: right.get(what), difference: (right.get(what) ?? 0) - (left.get(what) ?? 0) }))
    .toSorted((first, second) => Math.abs(second.difference) - Math.abs(first.difference));
}
