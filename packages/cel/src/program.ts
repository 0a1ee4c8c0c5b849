import type { Expr } from './ast.ts';
import { CelError, Suspended } from './cel-error.ts';
import { check, type Checked } from './checked.ts';
import type { Environment } from './environment.ts';
import type { Bindings, Frame, Step } from './frame.ts';
import { formatIssues, SyntaxFault, type Issue } from './issue.ts';
import { literalIssues } from './literals.ts';
import { parse } from './parser.ts';
import { plan } from './plan.ts';
import { assignable, formatType, type Type } from './type.ts';
import type { Value } from './value.ts';

export type Outcome =
  | { readonly value: Value; readonly cost: number; readonly error?: undefined }
  /** `cost` is what had been spent by then. */
  | { readonly error: CelError; readonly cost: number; readonly value?: undefined };

/** An expression that is ready to run, any number of times. */
export interface Program {
  readonly source: string;
  readonly type: Type;
  readonly checked: Checked;
  /**
   * Never throws. That something must be waited for (`evaluateAsync`) is an error, too. A cost above `limit` ends the evaluation with the
   * error code `budget`.
   */
  evaluate(bindings: Bindings, limit?: number): Outcome;
  /** As `evaluate`, and waits for what the expression asks that is not known at once. */
  evaluateAsync(bindings: Bindings, limit?: number): Outcome | Promise<Outcome>;
  /** Throws `CelError` and what must be waited for instead of returning it: for expressions whose values others ask for while they run. */
  run(bindings: Bindings, limit: number): { readonly value: Value; readonly cost: number };
}

export type Compiled =
  | { readonly program: Program; readonly issues?: undefined; readonly message?: undefined }
  /** `message` is what users are shown: every issue with its place, as cel-go prints them. */
  | { readonly issues: readonly Issue[]; readonly message: string; readonly program?: undefined };

export interface CompileOptions {
  /** The result must be one of these, or not known before it runs. */
  readonly expect?: readonly Type[];
}

const maxSuspensions = 100;

/** Parses, checks and plans. Never throws. */
export function compile(source: string, env: Environment, { expect }: CompileOptions = {}): Compiled {
  let expr: Expr;
  try {
    expr = parse(source);
  } catch (error) {
    if (!(error instanceof SyntaxFault)) throw error;
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
  return { program: new Planned(source, checked) };
}

function failed(source: string, issues: readonly Issue[]): Compiled {
  return { issues, message: formatIssues(source, issues) };
}

class Planned implements Program {
  readonly source: string;
  readonly checked: Checked;
  readonly #step: Step;
  constructor(source: string, checked: Checked) {
    this.source = source;
    this.checked = checked;
    this.#step = plan(checked, checked.expr);
  }
  get type(): Type {
    return this.checked.type;
  }

  evaluate(bindings: Bindings, limit = Number.MAX_SAFE_INTEGER): Outcome {
    const outcome = this.#try(bindings, limit);
    if (!(outcome instanceof Suspended)) return outcome;
    return { error: new CelError('internal', 'the expression asks what is not known yet'), cost: 0 };
  }

  evaluateAsync(bindings: Bindings, limit = Number.MAX_SAFE_INTEGER): Outcome | Promise<Outcome> {
    const outcome = this.#try(bindings, limit);
    return outcome instanceof Suspended ? this.#later(bindings, limit, outcome) : outcome;
  }
  async #later(bindings: Bindings, limit: number, first: Suspended): Promise<Outcome> {
    let suspended = first;
    for (let i = 0; i < maxSuspensions; i++) {
      await suspended.until;
      const outcome = this.#try(bindings, limit);
      if (!(outcome instanceof Suspended)) return outcome;
      suspended = outcome;
    }
    return { error: new CelError('budget', 'operation cancelled: it waits too often'), cost: limit };
  }

  run(bindings: Bindings, limit: number): { readonly value: Value; readonly cost: number } {
    const frame: Frame = { bindings, slots: [], cost: 0, limit };
    const value = this.#step(frame);
    return { value, cost: frame.cost };
  }

  #try(bindings: Bindings, limit: number): Outcome | Suspended {
    const frame: Frame = { bindings, slots: [], cost: 0, limit };
    try {
      return { value: this.#step(frame), cost: frame.cost };
    } catch (error) {
      if (error instanceof Suspended) return error;
      if (error instanceof CelError) return { error, cost: frame.cost };
      return {
        error: new CelError('internal', error instanceof Error ? error.message : String(error), { cause: error }),
        cost: frame.cost,
      };
    }
  }
}
