import { CelError } from '@oarlock/cel/values/cel-error';
import { perCallLimit } from '@oarlock/cel/cost-estimate';
import type { Bindings } from '@oarlock/cel/interpreter/frame';
import { compile, type Program } from '@oarlock/cel/program';
import { dyn, object, type ObjectType, type Type } from '@oarlock/cel/types/type';
import { FieldMap, type FieldSource, type Value } from '@oarlock/cel/values/value';
import { admissionEnvironment, type ExpressionScope, allStored, type IsStored } from './admission-environment.ts';

export interface VariableSpec {
  readonly name: string;
  readonly expression: string;
}
export interface VariableError {
  readonly index: number;
  readonly message: string;
}

/** The composited variables of a policy. Each variable can refer to the variables before it and is evaluated on first use. */
export class PolicyVariables {
  readonly programs: ReadonlyMap<string, Program>;
  readonly type: ObjectType;
  readonly faults: readonly VariableError[];

  constructor(variables: readonly VariableSpec[] | undefined, scope: ExpressionScope, isStored: IsStored = allStored) {
    const programs = new Map<string, Program>();
    const types: Record<string, Type> = {};
    const faults: VariableError[] = [];
    (variables ?? []).forEach(({ name, expression }, index) => {
      const known = object('kubernetes.variables', { ...types });
      const { program, message } = compile(expression, admissionEnvironment({ ...scope, variables: known, stored: isStored(expression) }));
      if (program === undefined) faults.push({ index, message });
      else programs.set(name, program);
      types[name] = program?.type ?? dyn;
    });
    this.programs = programs;
    this.type = object('kubernetes.variables', types);
    this.faults = faults;
  }

  /** Returns the variables of one request, which are evaluated with `bindings`. The caller must set the result as `bindings.variables`. */
  bind(bindings: Bindings, spend: (cost: number) => void): FieldMap {
    return new FieldMap(new Values(this.programs, bindings, spend), 'kubernetes.variables');
  }
}

class Values implements FieldSource {
  readonly #programs: ReadonlyMap<string, Program>;
  readonly #bindings: Bindings;
  readonly #spend: (cost: number) => void;
  readonly #known = new Map<string, { readonly value: Value } | { readonly error: CelError }>();

  constructor(programs: ReadonlyMap<string, Program>, bindings: Bindings, spend: (cost: number) => void) {
    this.#programs = programs;
    this.#bindings = bindings;
    this.#spend = spend;
  }

  get(name: string): Value | undefined {
    const program = this.#programs.get(name);
    if (program === undefined) return undefined;
    let known = this.#known.get(name);
    if (known === undefined) {
      known = this.#evaluate(name, program);
      this.#known.set(name, known);
    }
    if ('error' in known) throw known.error;
    return known.value;
  }
  #evaluate(name: string, program: Program): { readonly value: Value } | { readonly error: CelError } {
    try {
      const { value, cost } = program.run(this.#bindings, perCallLimit);
      this.#spend(cost);
      return { value };
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      return { error: new CelError(error.code, `composited variable "${name}" fails to evaluate: ${error.message}`, { cause: error }) };
    }
  }
  keys(): readonly string[] {
    return [...this.#programs.keys()];
  }
}
