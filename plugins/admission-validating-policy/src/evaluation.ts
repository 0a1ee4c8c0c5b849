import { perCallLimit, runtimeBudget } from '@oarlock/cel/estimate';
import type { Bindings } from '@oarlock/cel/frame';
import type { Outcome, Program } from '@oarlock/cel/program';
import type { RequestBindings } from '@oarlock/admission-rules/request-bindings';
import type { ReadyValidatingPolicy, ReadyValidation } from './validating-policy.ts';

export interface Denial {
  /** Of the validation; -1 for what is wrong with the policy itself. */
  readonly index: number;
  readonly message: string;
  readonly reason: string;
}
export interface Evaluated {
  readonly denials: readonly Denial[];
  readonly annotations: readonly { readonly key: string; readonly value: string }[];
}

const maxMessage = 5 * 1024;
const maxAnnotation = 10 * 1024;
const outOfBudget = 'validation failed due to running out of cost budget, no further validation rules will be run';
const nothing: Evaluated = { denials: [], annotations: [] };

/** What a policy says of one request. Errors of its expressions are denials, unless its `failurePolicy` ignores them. */
export async function evaluatePolicy(policy: ReadyValidatingPolicy, bindings: RequestBindings): Promise<Evaluated> {
  const evaluation = new Evaluation(bindings as unknown as Bindings);
  bindings.variables = policy.variables.bind(bindings as unknown as Bindings, (cost) => evaluation.spend(cost));
  const failed = (index: number, message: string): Denial[] => (policy.ignoresFaults ? [] : [{ index, message, reason: 'Invalid' }]);
  const given = policy.conditions.evaluate(bindings as unknown as Bindings);
  const conditions = given instanceof Promise ? await given : given;
  if (conditions.fault !== undefined) return { denials: failed(-1, conditions.fault), annotations: [] };
  if (!conditions.matches) return nothing;
  const denials: Denial[] = [];
  for (const [index, validation] of policy.validations.entries()) {
    const { value, error } = await evaluation.run(validation.program);
    if (error !== undefined) denials.push(...failed(index, faultOf(validation.program, error)));
    else if (value !== true)
      denials.push({ index, message: await messageOf(validation, evaluation), reason: validation.reason ?? 'Invalid' });
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

const faultOf = ({ source }: Program, { code, message }: NonNullable<Outcome['error']>): string =>
  code === 'budget' ? outOfBudget : `expression '${source}' resulted in error: ${message}`;

/** One budget for all expressions of a policy. */
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
  run(program: Program): Outcome | Promise<Outcome> {
    const outcome = program.evaluateAsync(this.#bindings, Math.max(0, Math.min(perCallLimit, this.#left)));
    if (outcome instanceof Promise)
      return outcome.then((settled) => {
        this.#left -= settled.cost;
        return settled;
      });
    this.#left -= outcome.cost;
    return outcome;
  }
}

async function messageOf({ program, message = '', messageProgram }: ReadyValidation, evaluation: Evaluation): Promise<string> {
  if (messageProgram !== undefined) {
    const { value } = await evaluation.run(messageProgram);
    const text = typeof value === 'string' ? value.trim() : '';
    if (text !== '' && Buffer.byteLength(text) <= maxMessage && !text.includes('\n')) return text;
  }
  return message.trim() || `failed expression: ${program.source.trim()}`;
}
