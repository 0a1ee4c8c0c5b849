import { validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '@oarlock/api/resources';
import { Admission, allow, type AdmissionDecision } from '@oarlock/spi/admission';
import { Authz } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { NamespaceObjects } from '@oarlock/admission-rules/namespace-objects';
import { ParamAccess } from '@oarlock/admission-rules/param-access';
import { configurationGroup, validateConfiguration, type PolicyResources } from '@oarlock/admission-rules/policy-configuration';
import { PolicyHookSource } from '@oarlock/admission-rules/policy-hook-source';
import { PolicyParams } from '@oarlock/admission-rules/policy-params';
import { z } from 'zod';
import { validateByPolicies } from './policy-validator.ts';
import { compileBinding, compilePolicy } from './validating-policy.ts';

/** Validates requests against ValidatingAdmissionPolicies and their bindings. */
export default Admission.plugin({
  id: 'admission-validating-policy',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers, authz: Authz },
  create({ client, informers, authz }) {
    const hooks = new PolicyHookSource(
      { client, informers },
      { resource: validatingAdmissionPolicies, compile: compilePolicy },
      { resource: validatingAdmissionPolicyBindings, compile: compileBinding },
    );
    const params = new PolicyParams(client);
    const dependencies = { namespaces: new NamespaceObjects(informers, client), params, authz };
    const resources: PolicyResources = {
      policies: 'validatingadmissionpolicies',
      bindings: 'validatingadmissionpolicybindings',
      faults: (policy) => compilePolicy(policy).faults,
      paramKind: (name) => hooks.policy(name)?.paramKind,
      access: new ParamAccess(authz, params),
    };
    return {
      matches: [{ resources: ['*'], operations: ['*'] }],
      isIdle: (_, { group }) => hooks.empty && group !== configurationGroup,
      validate(request): AdmissionDecision | Promise<AdmissionDecision> {
        if (request.resource.group === configurationGroup) return validateConfiguration(request, resources);
        const all = hooks.all();
        if (all instanceof Promise) return all.then((compiled) => validateByPolicies(request, compiled, dependencies));
        return all.some(({ policy }) => policy.matcher.covers(request)) ? validateByPolicies(request, all, dependencies) : allow;
      },
    };
  },
});
