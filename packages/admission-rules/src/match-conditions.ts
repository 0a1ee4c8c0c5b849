import { matchConditionsBudget, perCallLimit } from '@oarlock/cel/cost-estimate';
import type { Environment } from '@oarlock/cel/checker/environment';
import type { Bindings } from '@oarlock/cel/interpreter/frame';
import { compile, type Program } from '@oarlock/cel/program';
import { bool } from '@oarlock/cel/types/type';

export interface Condition {
  readonly name: string;
  readonly expression: string;
}
/** The result of evaluating match conditions. `fault`: no condition evaluated to false, and at least one failed with an error. */
export type MatchResult =
  | { readonly matches: boolean; readonly fault?: undefined }
  | { readonly fault: string; readonly matches?: undefined };
const matching: MatchResult = { matches: true };
const passing: MatchResult = { matches: false };

/** The match conditions of a webhook or policy (matchconditions.Matcher upstream). A request matches if all conditions evaluate to true. */
export class MatchConditions {
  readonly #programs: readonly { readonly name: string; readonly program: Program }[];
  /** The reason why the conditions cannot be evaluated, such as a compile error; undefined if they can be. */
  readonly fault: string | undefined;

  constructor(conditions: readonly Condition[] | undefined, env: () => Environment) {
    const programs: { readonly name: string; readonly program: Program }[] = [];
    let fault: string | undefined;
    if (conditions !== undefined && conditions.length > 0) {
      const environment = env();
      for (const { name, expression } of conditions) {
        const { program, message } = compile(expression, environment, { expect: [bool] });
        if (program === undefined) fault ??= `compilation failed: ${message}`;
        else programs.push({ name, program });
      }
    }
    this.#programs = programs;
    this.fault = fault;
  }

  get always(): boolean {
    return this.#programs.length === 0 && this.fault === undefined;
  }

  evaluate(bindings: Bindings): MatchResult | Promise<MatchResult> {
    return this.always ? matching : this.#evaluate(bindings);
  }
  async #evaluate(bindings: Bindings): Promise<MatchResult> {
    let left = matchConditionsBudget;
    const faults: string[] = this.fault === undefined ? [] : [this.fault];
    for (const { program } of this.#programs) {
      const evaluation = program.evaluateAsync(bindings, Math.min(perCallLimit, left));
      const { value, error, cost } = evaluation instanceof Promise ? await evaluation : evaluation;
      left -= cost;
      if (error !== undefined) faults.push(`expression '${program.source}' resulted in error: ${error.message}`);
      else if (value !== true) return passing;
    }
    return faults.length === 0 ? matching : { fault: faults.length === 1 ? (faults[0] as string) : `[${faults.join(', ')}]` };
  }
}
