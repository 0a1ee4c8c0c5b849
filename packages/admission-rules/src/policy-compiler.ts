import type { KubeObject } from '@oarlock/api/object';
import type { MatchCondition, MatchResources, ParamKind, Variable } from '@oarlock/api/types/admissionregistration-v1';
import { compile, type Program } from '@oarlock/cel/program';
import { bool, type Type } from '@oarlock/cel/types/type';
import { admissionEnvironment, type ExpressionScope, allStored, type IsStored } from './admission-environment.ts';
import { MatchConditions } from './match-conditions.ts';
import type { ExpressionError } from './policy-configuration.ts';
import { matcherOf, type CompiledPolicy } from './policy-dispatch.ts';
import { PolicyVariables } from './policy-variables.ts';

/** The fields that validating and mutating policies share. */
export interface AdmissionPolicy extends KubeObject {
  readonly spec?: {
    readonly paramKind?: ParamKind;
    readonly matchConstraints?: MatchResources;
    readonly matchConditions?: readonly MatchCondition[];
    readonly variables?: readonly Variable[];
    readonly failurePolicy?: string;
  };
}

/** A policy with the variables that its expressions share, and the expressions that do not compile. */
export interface CompiledExpressions extends CompiledPolicy {
  readonly variables: PolicyVariables;
  readonly faults: readonly ExpressionError[];
}

/** Compiles one version of a policy: first the variables, then the expressions of its kind by `compile`, then the rest by `finish`. */
export class PolicyCompiler {
  readonly #policy: AdmissionPolicy;
  readonly #params: boolean;
  readonly #variables: PolicyVariables;
  readonly #isStored: IsStored;
  readonly #scope: ExpressionScope;
  readonly #faults: ExpressionError[] = [];

  /** @param struct resolves the types that expressions of the policy may construct */
  constructor(policy: AdmissionPolicy, isStored: IsStored = allStored, struct?: ExpressionScope['struct']) {
    const { variables, paramKind } = policy.spec ?? {};
    this.#policy = policy;
    this.#params = paramKind !== undefined;
    const scope: ExpressionScope = { params: this.#params, ...(struct && { struct }) };
    this.#isStored = isStored;
    this.#variables = new PolicyVariables(variables, scope, isStored);
    for (const { index, message } of this.#variables.faults)
      this.#faults.push({ field: `spec.variables[${index}].expression`, expression: variables?.[index]?.expression ?? '', message });
    this.#scope = { ...scope, variables: this.#variables.type };
  }

  /** Returns the program of the expression; undefined if it does not compile to one of the expected types, which `finish` reports. */
  compile(field: string, expression: string, expect: readonly Type[]): Program | undefined {
    return this.#compile(this.#scope, { field, expression, expect });
  }

  #compile(
    scope: ExpressionScope,
    { field, expression, expect }: { readonly field: string; readonly expression: string; readonly expect: readonly Type[] },
  ): Program | undefined {
    const { program, message } = compile(expression, admissionEnvironment({ ...scope, stored: this.#isStored(expression) }), { expect });
    if (program === undefined) this.#faults.push({ field, expression, message });
    return program;
  }

  finish(): CompiledExpressions {
    const { metadata, spec: { matchConstraints, matchConditions = [], failurePolicy, paramKind } = {} } = this.#policy;
    for (const [i, { expression }] of matchConditions.entries())
      this.#compile({ params: this.#params }, { field: `spec.matchConditions[${i}].expression`, expression, expect: [bool] });
    const faults = this.#faults;
    return {
      name: metadata?.name ?? '',
      matcher: matcherOf(matchConstraints),
      conditions: new MatchConditions(matchConditions, () => admissionEnvironment({ params: this.#params, stored: true })),
      ignoresFailures: failurePolicy === 'Ignore',
      paramKind,
      fault: faults.length === 0 ? undefined : faults.map(({ field, message }) => `${field}: compilation failed: ${message}`).join('; '),
      variables: this.#variables,
      faults,
    };
  }
}
