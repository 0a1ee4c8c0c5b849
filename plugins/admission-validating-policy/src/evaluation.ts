import { perCallLimit, runtimeBudget } from '@oarlock/cel/cost-estimate';
import type { Bindings } from '@oarlock/cel/interpreter/frame';
import type { EvaluationResult, Program } from '@oarlock/cel/program';
import type { RequestBindings } from '@oarlock/admission-rules/request-bindings';
import type { CompiledValidatingPolicy, CompiledValidation } from './validating-policy.ts';

export interface Denial {
  /** The index of the validation in the policy; -1 for an error of the policy itself. */
  readonly index: number;
  /** Whether an expression resulted in an error instead of false. */
  readonly isError: boolean;
  readonly message: string;
  readonly reason: string;
}
export interface PolicyEvaluation {
  readonly denials: readonly Denial[];
  readonly annotations: readonly { readonly key: string; readonly value: string }[];
}

const maxMessage = 5 * 1024;
const maxAnnotation = 10 * 1024;
const outOfBudget = 'validation failed due to running out of cost budget, no further validation rules will be run';
const nothing: PolicyEvaluation = { denials: [], annotations: [] };

/** Evaluates a policy for a request. Errors of expressions are denials unless the failurePolicy is Ignore. */
export async function evaluatePolicy(policy: CompiledValidatingPolicy, bindings: RequestBindings): Promise<PolicyEvaluation> {
  const evaluation = new Evaluation(bindings as unknown as Bindings);
  bindings.variables = policy.variables.bind(bindings as unknown as Bindings, (cost) => evaluation.spend(cost));
  const failed = (index: number, message: string): Denial[] =>
    policy.ignoresFailures ? [] : [{ index, isError: true, message, reason: 'Invalid' }];
  const matchResult = policy.conditions.evaluate(bindings as unknown as Bindings);
  const conditions = matchResult instanceof Promise ? await matchResult : matchResult;
  if (conditions.fault !== undefined) return { denials: failed(-1, conditions.fault), annotations: [] };
  if (!conditions.matches) return nothing;
  const denials: Denial[] = [];
  for (const [index, validation] of policy.validations.entries()) {
    const { value, error } = await evaluation.run(validation.program);
    if (error !== undefined) denials.push(...failed(index, faultOf(validation.program, error)));
    else if (value !== true)
      denials.push({ index, isError: false, message: await messageOf(validation, evaluation), reason: validation.reason ?? 'Invalid' });
    if (evaluation.exhausted) break;
  }
  const annotations: { key: string; value: string }[] = [];
  for (const { key, program } of policy.annotations) {
    const { value, error } = await evaluation.run(program);
    if (error !== undefined) denials.push(...failed(-1, faultOf(program, error)));
    else if (typeof value === 'string' && value.trim() !== '') annotations.push({ key, value: value.trim().slice(0, maxAnnotation) });
  }
  return { denials, annotations };
}

const faultOf = ({ source }: Program, { code, message }: NonNullable<EvaluationResult['error']>): string =>
  code === 'budget' ? outOfBudget : `expression '${source}' resulted in error: ${message}`;

/** The evaluation of a policy, in which all expressions share one cost budget. */
class Evaluation {
  readonly #bindings: Bindings;
  #left = runtimeBudget;
  constructor(bindings: Bindings) {
    this.#bindings = bindings;
  }
  get exhausted(): boolean {
    return this.#left <= 0;
  }
  spend(cost: number): void {
    this.#left -= cost;
  }
  run(program: Program): EvaluationResult | Promise<EvaluationResult> {
    const outcome = program.evaluateAsync(this.#bindings, Math.max(0, Math.min(perCallLimit, this.#left)));
    if (outcome instanceof Promise)
      return outcome.then((result) => {
        this.#left -= result.cost;
        return result;
      });
    this.#left -= outcome.cost;
    return outcome;
  }
}

async function messageOf({ program, message = '', messageProgram }: CompiledValidation, evaluation: Evaluation): Promise<string> {
  if (messageProgram !== undefined) {
    const { value } = await evaluation.run(messageProgram);
    const text = typeof value === 'string' ? value.trim() : '';
    if (text !== '' && Buffer.byteLength(text) <= maxMessage && !text.includes('\n')) return text;
  }
  return message.trim() || `failed expression: ${program.source.trim()}`;
}
