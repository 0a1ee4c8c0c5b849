import type { MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding } from '@oarlock/api/types/admissionregistration-v1';
import { PolicyCompiler, type CompiledExpressions } from '@oarlock/admission-rules/policy-compiler';
import { bindingMatcherOf, type CompiledBinding } from '@oarlock/admission-rules/policy-dispatch';
import type { IsStored } from '@oarlock/admission-rules/admission-environment';
import type { Program } from '@oarlock/cel/program';
import { list } from '@oarlock/cel/types/type';
import { jsonPatchType, mutationStruct, objectType } from './mutation-types.ts';

export interface CompiledMutation {
  readonly type: 'ApplyConfiguration' | 'JSONPatch';
  readonly program: Program;
}
export interface CompiledMutatingPolicy extends CompiledExpressions {
  readonly mutations: readonly CompiledMutation[];
  readonly reinvokes: boolean;
}

/** Compiles the CEL expressions of a policy. Called once per version of the policy, and for each write of a policy. */
export function compilePolicy(policy: MutatingAdmissionPolicy, isStored?: IsStored): CompiledMutatingPolicy {
  const compiler = new PolicyCompiler(policy, isStored, mutationStruct);
  const mutations = (policy.spec?.mutations ?? []).flatMap(({ patchType, applyConfiguration, jsonPatch }, i): CompiledMutation[] => {
    const program =
      patchType === 'ApplyConfiguration'
        ? compiler.compile(`spec.mutations[${i}].applyConfiguration.expression`, applyConfiguration?.expression ?? '', [objectType])
        : compiler.compile(`spec.mutations[${i}].jsonPatch.expression`, jsonPatch?.expression ?? '', [list(jsonPatchType)]);
    return program === undefined ? [] : [{ type: patchType === 'ApplyConfiguration' ? 'ApplyConfiguration' : 'JSONPatch', program }];
  });
  return { ...compiler.finish(), mutations, reinvokes: policy.spec?.reinvocationPolicy === 'IfNeeded' };
}

export function compileBinding({ metadata, spec = {} }: MutatingAdmissionPolicyBinding): CompiledBinding {
  return {
    name: metadata?.name ?? '',
    policyName: spec.policyName ?? '',
    matcher: bindingMatcherOf(spec.matchResources),
    paramRef: spec.paramRef,
  };
}
