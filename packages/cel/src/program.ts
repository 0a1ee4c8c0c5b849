import type { Expr } from './syntax/ast.ts';
import { CelError, EvaluationSuspended } from './values/cel-error.ts';
import type { CheckedExpression } from './checker/checked-expression.ts';
import { check } from './checker/checker.ts';
import type { Environment } from './checker/environment.ts';
import type { Bindings, Frame, Step } from './interpreter/frame.ts';
import { formatIssues, CelSyntaxError, type Issue } from './syntax/issue.ts';
import { literalIssues } from './literals.ts';
import { parse } from './syntax/parser.ts';
import { plan } from './interpreter/plan.ts';
import { assignable, formatType, type Type } from './types/type.ts';
import type { Value } from './values/value.ts';

export type EvaluationResult =
  | { readonly value: Value; readonly cost: number; readonly error?: undefined }
  /** `cost` is the cost up to the error. */
  | { readonly error: CelError; readonly cost: number; readonly value?: undefined };

/** A compiled expression, which can be evaluated any number of times. */
export interface Program {
  readonly source: string;
  readonly type: Type;
  readonly checked: CheckedExpression;
  /**
   * Evaluates the expression; never throws. Returns an error if a function needs an asynchronous result (see `evaluateAsync`), and an error
   * with code `budget` if the cost exceeds `limit`.
   */
  evaluate(bindings: Bindings, limit?: number): EvaluationResult;
  /** Evaluates the expression like `evaluate`, but waits for asynchronous results such as authorization decisions. */
  evaluateAsync(bindings: Bindings, limit?: number): EvaluationResult | Promise<EvaluationResult>;
  /**
   * Evaluates the expression like `evaluate`, but throws errors, including EvaluationSuspended. Used for a composited variable that another
   * expression evaluates.
   * @throws CelError; EvaluationSuspended if a function needs an asynchronous result
   */
  run(bindings: Bindings, limit: number): { readonly value: Value; readonly cost: number };
}

export type Compiled =
  | { readonly program: Program; readonly issues?: undefined; readonly message?: undefined }
  /** `message` is for users: every issue with its position, in the format of cel-go. */
  | { readonly issues: readonly Issue[]; readonly message: string; readonly program?: undefined };

export interface CompileOptions {
  /** The allowed result types; any type if absent. The type `dyn` is always allowed. */
  readonly expect?: readonly Type[];
}

const maxSuspensions = 100;

/** Parses, checks and plans an expression. Never throws: errors are returned as `issues`. */
export function compile(source: string, env: Environment, { expect }: CompileOptions = {}): Compiled {
  let expr: Expr;
  try {
    expr = parse(source, env);
  } catch (error) {
    if (!(error instanceof CelSyntaxError)) throw error;
    return failed(source, [{ at: error.at, message: error.message }]);
  }
  const checked = check(expr, env);
  const issues = checked.issues.length > 0 ? checked.issues : literalIssues(expr);
  if (issues.length > 0) return failed(source, issues);
  if (
    expect !== undefined &&
    !expect.some((type) => type.kind === checked.type.kind && assignable(type, checked.type, new Map())) &&
    checked.type.kind !== 'dyn'
  ) {
    const message = `must evaluate to ${expect.map(formatType).join(' or ')}`;
    return { issues: [{ at: 0, message }], message };
  }
  return { program: new PlannedProgram(source, checked) };
}

function failed(source: string, issues: readonly Issue[]): Compiled {
  return { issues, message: formatIssues(source, issues) };
}

class PlannedProgram implements Program {
  readonly source: string;
  readonly checked: CheckedExpression;
  readonly #step: Step;
  constructor(source: string, checked: CheckedExpression) {
    this.source = source;
    this.checked = checked;
    this.#step = plan(checked, checked.expr);
  }
  get type(): Type {
    return this.checked.type;
  }

  evaluate(bindings: Bindings, limit = Number.MAX_SAFE_INTEGER): EvaluationResult {
    const outcome = this.#try(bindings, limit);
    if (!(outcome instanceof EvaluationSuspended)) return outcome;
    return { error: new CelError('internal', 'the expression needs an asynchronous result; use evaluateAsync'), cost: 0 };
  }

  evaluateAsync(bindings: Bindings, limit = Number.MAX_SAFE_INTEGER): EvaluationResult | Promise<EvaluationResult> {
    const outcome = this.#try(bindings, limit);
    return outcome instanceof EvaluationSuspended ? this.#resume(bindings, limit, outcome) : outcome;
  }
  async #resume(bindings: Bindings, limit: number, first: EvaluationSuspended): Promise<EvaluationResult> {
    let suspended = first;
    for (let i = 0; i < maxSuspensions; i++) {
      await suspended.until;
      const outcome = this.#try(bindings, limit);
      if (!(outcome instanceof EvaluationSuspended)) return outcome;
      suspended = outcome;
    }
    return { error: new CelError('budget', 'operation cancelled: too many asynchronous results'), cost: limit };
  }

  run(bindings: Bindings, limit: number): { readonly value: Value; readonly cost: number } {
    const frame: Frame = { bindings, slots: [], cost: 0, limit };
    const value = this.#step(frame);
    return { value, cost: frame.cost };
  }

  #try(bindings: Bindings, limit: number): EvaluationResult | EvaluationSuspended {
    const frame: Frame = { bindings, slots: [], cost: 0, limit };
    try {
      return { value: this.#step(frame), cost: frame.cost };
    } catch (error) {
      if (error instanceof EvaluationSuspended) return error;
      if (error instanceof CelError) return { error, cost: frame.cost };
      return {
        error: new CelError('internal', error instanceof Error ? error.message : String(error), { cause: error }),
        cost: frame.cost,
      };
    }
  }
}
