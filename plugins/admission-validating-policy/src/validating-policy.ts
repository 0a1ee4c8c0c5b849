import type { ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding } from '@oarlock/api/types/admissionregistration-v1';
import { admissionEnvironment } from '@oarlock/admission-rules/environment';
import { MatchConditions } from '@oarlock/admission-rules/match-conditions';
import { bindingMatcherOf, matcherOf, type ReadyBinding, type ReadyPolicy } from '@oarlock/admission-rules/policy-dispatch';
import type { ExpressionFault } from '@oarlock/admission-rules/policy-configuration';
import { PolicyVariables } from '@oarlock/admission-rules/policy-variables';
import { compile, type Program } from '@oarlock/cel/program';
import { bool, nullType, string, type Type } from '@oarlock/cel/type';

export interface ReadyValidation {
  readonly program: Program;
  readonly message: string | undefined;
  readonly messageProgram: Program | undefined;
  readonly reason: string | undefined;
}
export interface ReadyAnnotation {
  readonly key: string;
  readonly program: Program;
}
export interface ReadyValidatingPolicy extends ReadyPolicy {
  readonly validations: readonly ReadyValidation[];
  readonly annotations: readonly ReadyAnnotation[];
  readonly variables: PolicyVariables;
  readonly faults: readonly ExpressionFault[];
}
export interface ReadyValidatingBinding extends ReadyBinding {
  readonly actions: readonly string[];
}

/** Compiles everything that a policy says, once per version of it. */
export function readyPolicy({ metadata, spec = {} }: ValidatingAdmissionPolicy): ReadyValidatingPolicy {
  const faults: ExpressionFault[] = [];
  const params = spec.paramKind !== undefined;
  const variables = new PolicyVariables(spec.variables, { params });
  for (const { index, message } of variables.faults)
    faults.push({ field: `spec.variables[${index}].expression`, expression: spec.variables?.[index]?.expression ?? '', message });
  const env = admissionEnvironment({ params, variables: variables.type });
  const made = (field: string, expression: string, expect: readonly Type[]): Program | undefined => {
    const { program, message } = compile(expression, env, { expect });
    if (program === undefined) faults.push({ field, expression, message });
    return program;
  };
  const validations = (spec.validations ?? []).flatMap(({ expression, message, messageExpression, reason }, i): ReadyValidation[] => {
    const program = made(`spec.validations[${i}].expression`, expression, [bool]);
    const messageProgram = messageExpression ? made(`spec.validations[${i}].messageExpression`, messageExpression, [string]) : undefined;
    return program === undefined ? [] : [{ program, message, messageProgram, reason }];
  });
  const annotations = (spec.auditAnnotations ?? []).flatMap(({ key, valueExpression }, i): ReadyAnnotation[] => {
    const program = made(`spec.auditAnnotations[${i}].valueExpression`, valueExpression, [string, nullType]);
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
    ignoresFaults: spec.failurePolicy === 'Ignore',
    paramKind: spec.paramKind,
    fault: faults.length === 0 ? undefined : faults.map(({ field, message }) => `${field}: compilation failed: ${message}`).join('; '),
    validations,
    annotations,
    variables,
    faults,
  };
}

export function readyBinding({ metadata, spec }: ValidatingAdmissionPolicyBinding): ReadyValidatingBinding {
  return {
    name: metadata?.name ?? '',
    policyName: spec.policyName,
    matcher: bindingMatcherOf(spec.matchResources),
    paramRef: spec.paramRef,
    actions: spec.validationActions,
  };
}
