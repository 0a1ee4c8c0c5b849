import { CelError } from './cel-error.ts';
import type { Value } from './value.ts';

/** What is bound to the variables of an environment. Objects as JSON has them need no conversion. */
export type Bindings = Readonly<Record<string, Value | undefined>>;

/** One evaluation. */
export interface Frame {
  readonly bindings: Bindings;
  readonly slots: Value[];
  cost: number;
  readonly limit: number;
}
export type Step = (frame: Frame) => Value;

/** @throws CelError budget */
export function charge(frame: Frame, cost: number): void {
  frame.cost += cost;
  if (frame.cost > frame.limit) throw new CelError('budget', 'operation cancelled: actual cost limit exceeded');
}
