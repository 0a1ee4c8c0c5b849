import { validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '@oarlock/api/resources';
import { configurationGroup } from '@oarlock/admission-rules/policy-configuration';
import { PolicySet } from '@oarlock/admission-rules/policy-set';
import { Admission, allow, type AdmissionDecision } from '@oarlock/spi/admission';
import { Authz } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { CheckMetrics } from './check-metrics.ts';
import { validateByPolicies } from './policy-validator.ts';
import { compileBinding, compilePolicy } from './validating-policy.ts';

/** Validates requests against ValidatingAdmissionPolicies and their bindings. */
export default Admission.plugin({
  id: 'admission-validating-policy',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers, authz: Authz },
  create(needs, { clock, metrics }) {
    const policies = new PolicySet(
      needs,
      { resource: validatingAdmissionPolicies, compile: compilePolicy },
      { resource: validatingAdmissionPolicyBindings, compile: compileBinding },
    );
    const dependencies = { ...policies.dependencies, clock, metrics: new CheckMetrics(metrics) };
    return {
      matches: [{ resources: ['*'], operations: ['*'] }],
      isIdle: (_, { group }) => policies.isIdle(group),
      validate(request): AdmissionDecision | Promise<AdmissionDecision> {
        if (request.resource.group === configurationGroup) return policies.validateConfiguration(request);
        return policies.evaluate<AdmissionDecision>(request, allow, (hooks) => validateByPolicies(request, hooks, dependencies));
      },
    };
  },
});
