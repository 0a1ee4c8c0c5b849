import type { MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding } from '@oarlock/api/types/admissionregistration-v1';
import { admissionEnvironment } from '@oarlock/admission-rules/admission-environment';
import { MatchConditions } from '@oarlock/admission-rules/match-conditions';
import { bindingMatcherOf, matcherOf, type CompiledBinding, type CompiledPolicy } from '@oarlock/admission-rules/policy-dispatch';
import type { ExpressionError } from '@oarlock/admission-rules/policy-configuration';
import { PolicyVariables } from '@oarlock/admission-rules/policy-variables';
import { compile, type Program } from '@oarlock/cel/program';
import { bool, list } from '@oarlock/cel/types/type';
import { jsonPatchType, mutationStruct, objectType } from './mutation-types.ts';

export interface CompiledMutation {
  readonly type: 'ApplyConfiguration' | 'JSONPatch';
  readonly program: Program;
}
export interface CompiledMutatingPolicy extends CompiledPolicy {
  readonly mutations: readonly CompiledMutation[];
  readonly variables: PolicyVariables;
  readonly reinvokes: boolean;
  readonly faults: readonly ExpressionError[];
}

/** Compiles the CEL expressions of a policy. Called once per version of the policy. */
export function compilePolicy({ metadata, spec = {} }: MutatingAdmissionPolicy): CompiledMutatingPolicy {
  const faults: ExpressionError[] = [];
  const params = spec.paramKind !== undefined;
  const scope = { params, struct: mutationStruct };
  const variables = new PolicyVariables(spec.variables, scope);
  for (const { index, message } of variables.faults)
    faults.push({ field: `spec.variables[${index}].expression`, expression: spec.variables?.[index]?.expression ?? '', message });
  const env = admissionEnvironment({ ...scope, variables: variables.type });
  const mutations = (spec.mutations ?? []).flatMap(({ patchType, applyConfiguration, jsonPatch }, i): CompiledMutation[] => {
    const applies = patchType === 'ApplyConfiguration';
    const expression = (applies ? applyConfiguration : jsonPatch)?.expression ?? '';
    const { program, message } = compile(expression, env, { expect: [applies ? objectType : list(jsonPatchType)] });
    if (program !== undefined) return [{ type: applies ? 'ApplyConfiguration' : 'JSONPatch', program }];
    faults.push({ field: `spec.mutations[${i}].${applies ? 'applyConfiguration' : 'jsonPatch'}.expression`, expression, message });
    return [];
  });
  const conditions = new MatchConditions(spec.matchConditions, () => admissionEnvironment({ params }));
  (spec.matchConditions ?? []).forEach(({ expression }, i) => {
    const { message } = compile(expression, admissionEnvironment({ params }), { expect: [bool] });
    if (message !== undefined) faults.push({ field: `spec.matchConditions[${i}].expression`, expression, message });
  });
  return {
    name: metadata?.name ?? '',
    matcher: matcherOf(spec.matchConstraints),
    conditions,
    ignoresFailures: spec.failurePolicy === 'Ignore',
    paramKind: spec.paramKind,
    fault: faults.length === 0 ? undefined : faults.map(({ field, message }) => `${field}: compilation failed: ${message}`).join('; '),
    mutations,
    variables,
    reinvokes: spec.reinvocationPolicy === 'IfNeeded',
    faults,
  };
}

export function compileBinding({ metadata, spec = {} }: MutatingAdmissionPolicyBinding): CompiledBinding {
  return {
    name: metadata?.name ?? '',
    policyName: spec.policyName ?? '',
    matcher: bindingMatcherOf(spec.matchResources),
    paramRef: spec.paramRef,
  };
}
