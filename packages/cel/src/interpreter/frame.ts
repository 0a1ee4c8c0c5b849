import { CelError } from '../values/cel-error.ts';
import type { Value } from '../values/value.ts';

/** The values of the environment's variables, by name. JSON values can be used without conversion. */
export type Bindings = Readonly<Record<string, Value | undefined>>;

/** The state of one evaluation (ExecutionFrame of cel-go). */
export interface Frame {
  readonly bindings: Bindings;
  readonly slots: Value[];
  cost: number;
  readonly limit: number;
}
export type Step = (frame: Frame) => Value;

/** Adds `cost` to the cost of the evaluation. @throws CelError with code `budget` if the total exceeds the cost limit */
export function charge(frame: Frame, cost: number): void {
  frame.cost += cost;
  if (frame.cost > frame.limit) throw new CelError('budget', 'operation cancelled: actual cost limit exceeded');
}
