import type { ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding } from '@oarlock/api/types/admissionregistration-v1';
import { admissionEnvironment } from '@oarlock/admission-rules/admission-environment';
import { MatchConditions } from '@oarlock/admission-rules/match-conditions';
import { bindingMatcherOf, matcherOf, type CompiledBinding, type CompiledPolicy } from '@oarlock/admission-rules/policy-dispatch';
import type { ExpressionError } from '@oarlock/admission-rules/policy-configuration';
import { PolicyVariables } from '@oarlock/admission-rules/policy-variables';
import { compile, type Program } from '@oarlock/cel/program';
import { bool, nullType, string, type Type } from '@oarlock/cel/types/type';

export interface CompiledValidation {
  readonly program: Program;
  readonly message: string | undefined;
  readonly messageProgram: Program | undefined;
  readonly reason: string | undefined;
}
export interface CompiledAuditAnnotation {
  readonly key: string;
  readonly program: Program;
}
export interface CompiledValidatingPolicy extends CompiledPolicy {
  readonly validations: readonly CompiledValidation[];
  readonly annotations: readonly CompiledAuditAnnotation[];
  readonly variables: PolicyVariables;
  readonly faults: readonly ExpressionError[];
}
export interface CompiledValidatingBinding extends CompiledBinding {
  readonly actions: readonly string[];
}

/** Compiles the CEL expressions of a policy. Called once per version of the policy. */
export function compilePolicy({ metadata, spec = {} }: ValidatingAdmissionPolicy): CompiledValidatingPolicy {
  const faults: ExpressionError[] = [];
  const params = spec.paramKind !== undefined;
  const variables = new PolicyVariables(spec.variables, { params });
  for (const { index, message } of variables.faults)
    faults.push({ field: `spec.variables[${index}].expression`, expression: spec.variables?.[index]?.expression ?? '', message });
  const env = admissionEnvironment({ params, variables: variables.type });
  const compileField = (field: string, expression: string, expect: readonly Type[]): Program | undefined => {
    const { program, message } = compile(expression, env, { expect });
    if (program === undefined) faults.push({ field, expression, message });
    return program;
  };
  const validations = (spec.validations ?? []).flatMap(({ expression, message, messageExpression, reason }, i): CompiledValidation[] => {
    const program = compileField(`spec.validations[${i}].expression`, expression, [bool]);
    const messageProgram = messageExpression
      ? compileField(`spec.validations[${i}].messageExpression`, messageExpression, [string])
      : undefined;
    return program === undefined ? [] : [{ program, message, messageProgram, reason }];
  });
  const annotations = (spec.auditAnnotations ?? []).flatMap(({ key, valueExpression }, i): CompiledAuditAnnotation[] => {
    const program = compileField(`spec.auditAnnotations[${i}].valueExpression`, valueExpression, [string, nullType]);
    return program === undefined ? [] : [{ key, program }];
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
    validations,
    annotations,
    variables,
    faults,
  };
}

export function compileBinding({ metadata, spec }: ValidatingAdmissionPolicyBinding): CompiledValidatingBinding {
  return {
    name: metadata?.name ?? '',
    policyName: spec.policyName,
    matcher: bindingMatcherOf(spec.matchResources),
    paramRef: spec.paramRef,
    actions: spec.validationActions,
  };
}
