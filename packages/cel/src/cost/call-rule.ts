import type { Overload } from '../libraries/library.ts';
import type { Expr } from '../syntax/ast.ts';
import type { Type } from '../types/type.ts';
import { unknownEstimate, type Estimate } from './estimates.ts';

/** The receiver or an argument of a call. */
export interface Operand {
  readonly expr: Expr;
  readonly type: Type;
  /** The size of the value; undefined if it is not known. */
  readonly size: Estimate | undefined;
  /** Returns the size that the schema declares for the elements of the list; undefined if the operand is no part of the schema. */
  elementSize(): Estimate | undefined;
}
export interface CallOperands {
  readonly target: Operand | undefined;
  readonly args: readonly Operand[];
  readonly overload: Overload;
}
/** The cost of a call without its operands, and the size of its result if the call determines it. */
export interface CallEstimate {
  readonly cost: Estimate;
  readonly size?: Estimate;
}
export type CallRule = (call: CallOperands) => CallEstimate | undefined;

export const sizeOf = (operand: Operand | undefined): Estimate => operand?.size ?? unknownEstimate;
