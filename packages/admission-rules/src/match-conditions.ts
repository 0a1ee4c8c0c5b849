import { matchConditionsBudget, perCallLimit } from '@oarlock/cel/estimate';
import type { Environment } from '@oarlock/cel/environment';
import type { Bindings } from '@oarlock/cel/frame';
import { compile, type Program } from '@oarlock/cel/program';
import { bool } from '@oarlock/cel/type';

export interface Condition {
  readonly name: string;
  readonly expression: string;
}
/** `fault`: no condition said no, and one could not say anything. */
export type ConditionsAnswer =
  | { readonly matches: boolean; readonly fault?: undefined }
  | { readonly fault: string; readonly matches?: undefined };
const matching: ConditionsAnswer = { matches: true };
const passing: ConditionsAnswer = { matches: false };

/** The conditions of a webhook or a policy beside its rules: all must hold. */
export class MatchConditions {
  readonly #programs: readonly { readonly name: string; readonly program: Program }[];
  /** What is wrong with them. */
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

  evaluate(bindings: Bindings): ConditionsAnswer | Promise<ConditionsAnswer> {
    return this.always ? matching : this.#evaluate(bindings);
  }
  async #evaluate(bindings: Bindings): Promise<ConditionsAnswer> {
    let left = matchConditionsBudget;
    const faults: string[] = this.fault === undefined ? [] : [this.fault];
    for (const { program } of this.#programs) {
      const given = program.evaluateAsync(bindings, Math.min(perCallLimit, left));
      const { value, error, cost } = given instanceof Promise ? await given : given;
      left -= cost;
      if (error !== undefined) faults.push(`expression '${program.source}' resulted in error: ${error.message}`);
      else if (value !== true) return passing;
    }
    return faults.length === 0 ? matching : { fault: faults.length === 1 ? (faults[0] as string) : `[${faults.join(', ')}]` };
  }
}
