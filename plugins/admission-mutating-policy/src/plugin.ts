import type { KubeObject } from '@oarlock/api/object';
import { mutatingAdmissionPolicies, mutatingAdmissionPolicyBindings } from '@oarlock/api/resources';
import { isExempt } from '@oarlock/admission-rules/matcher';
import { configurationGroup } from '@oarlock/admission-rules/policy-configuration';
import { PolicySet } from '@oarlock/admission-rules/policy-set';
import { Admission, allow, type AdmissionDecision } from '@oarlock/spi/admission';
import { Authz } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { compileBinding, compilePolicy } from './mutating-policy.ts';
import { PolicyMutator } from './policy-mutator.ts';

/** Mutates objects according to MutatingAdmissionPolicies and their bindings. */
export default Admission.plugin({
  id: 'admission-mutating-policy',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers, authz: Authz },
  create(needs) {
    const policies = new PolicySet(
      needs,
      { resource: mutatingAdmissionPolicies, compile: compilePolicy },
      { resource: mutatingAdmissionPolicyBindings, compile: compileBinding },
    );
    const mutator = new PolicyMutator(policies.dependencies);
    return {
      matches: [{ resources: ['*'], operations: ['*'] }],
      isIdle: (_, { group }) => policies.isIdle(group),
      mutate(request) {
        const object = request.object as KubeObject;
        if (isExempt(request)) return object;
        return policies.evaluate<KubeObject | AdmissionDecision>(request, object, (hooks) => mutator.mutate(request, object, hooks));
      },
      validate: (request) => (request.resource.group === configurationGroup ? policies.validateConfiguration(request) : allow),
    };
  },
});
