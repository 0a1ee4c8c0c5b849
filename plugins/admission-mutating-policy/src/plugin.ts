import type { KubeObject } from '@oarlock/api/object';
import { mutatingAdmissionPolicies, mutatingAdmissionPolicyBindings } from '@oarlock/api/resources';
import { isExempt } from '@oarlock/admission-rules/matcher';
import { NamespaceObjects } from '@oarlock/admission-rules/namespace-objects';
import { ParamAccess } from '@oarlock/admission-rules/param-access';
import { configurationGroup, validateConfiguration, type PolicyResources } from '@oarlock/admission-rules/policy-configuration';
import { PolicyHookSource } from '@oarlock/admission-rules/policy-hook-source';
import { PolicyParams } from '@oarlock/admission-rules/policy-params';
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
  create({ client, informers, authz }) {
    const hooks = new PolicyHookSource(
      { client, informers },
      { resource: mutatingAdmissionPolicies, compile: compilePolicy },
      { resource: mutatingAdmissionPolicyBindings, compile: compileBinding },
    );
    const params = new PolicyParams(client);
    const mutator = new PolicyMutator({ namespaces: new NamespaceObjects(informers, client), params, authz });
    const resources: PolicyResources = {
      policies: 'mutatingadmissionpolicies',
      bindings: 'mutatingadmissionpolicybindings',
      faults: (policy) => compilePolicy(policy).faults,
      paramKind: (name) => hooks.policy(name)?.paramKind,
      access: new ParamAccess(authz, params),
    };
    return {
      matches: [{ resources: ['*'], operations: ['*'] }],
      isIdle: (_, { group }) => hooks.empty && group !== configurationGroup,
      mutate(request): KubeObject | Promise<KubeObject | AdmissionDecision> {
        const object = request.object as KubeObject;
        if (isExempt(request)) return object;
        const all = hooks.all();
        if (all instanceof Promise) return all.then((compiled) => mutator.mutate(request, object, compiled));
        return all.some(({ policy }) => policy.matcher.covers(request)) ? mutator.mutate(request, object, all) : object;
      },
      validate: (request) => (request.resource.group === configurationGroup ? validateConfiguration(request, resources) : allow),
    };
  },
});
