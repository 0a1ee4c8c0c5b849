import type { ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding } from '@oarlock/api/types/admissionregistration-v1';
import { PolicyCompiler, type CompiledExpressions } from '@oarlock/admission-rules/policy-compiler';
import { bindingMatcherOf, type CompiledBinding } from '@oarlock/admission-rules/policy-dispatch';
import type { IsStored } from '@oarlock/admission-rules/admission-environment';
import type { Program } from '@oarlock/cel/program';
import { bool, nullType, string } from '@oarlock/cel/types/type';

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
export interface CompiledValidatingPolicy extends CompiledExpressions {
  readonly validations: readonly CompiledValidation[];
  readonly annotations: readonly CompiledAuditAnnotation[];
}
export interface CompiledValidatingBinding extends CompiledBinding {
  readonly actions: readonly string[];
}

/** Compiles the CEL expressions of a policy. Called once per version of the policy, and for each write of a policy. */
export function compilePolicy(policy: ValidatingAdmissionPolicy, isStored?: IsStored): CompiledValidatingPolicy {
  const compiler = new PolicyCompiler(policy, isStored);
  const { validations = [], auditAnnotations = [] } = policy.spec ?? {};
  const compiled = validations.flatMap(({ expression, message, messageExpression, reason }, i): CompiledValidation[] => {
    const program = compiler.compile(`spec.validations[${i}].expression`, expression, [bool]);
    const messageProgram = messageExpression
      ? compiler.compile(`spec.validations[${i}].messageExpression`, messageExpression, [string])
      : undefined;
    return program === undefined ? [] : [{ program, message, messageProgram, reason }];
  });
  const annotations = auditAnnotations.flatMap(({ key, valueExpression }, i): CompiledAuditAnnotation[] => {
    const program = compiler.compile(`spec.auditAnnotations[${i}].valueExpression`, valueExpression, [string, nullType]);
    return program === undefined ? [] : [{ key, program }];
  });
  return { ...compiler.finish(), validations: compiled, annotations };
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
