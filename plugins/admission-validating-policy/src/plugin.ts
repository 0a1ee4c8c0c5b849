import { validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '@oarlock/api/resources';
import { Admission, allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { Authz } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { NamespaceObjects } from '@oarlock/admission-rules/namespace-objects';
import { toPolicyHooks, dispatch, policyRejection, type PolicyHook } from '@oarlock/admission-rules/policy-dispatch';
import { ParamAccess } from '@oarlock/admission-rules/param-access';
import { configurationGroup, validateConfiguration, type PolicyResources } from '@oarlock/admission-rules/policy-configuration';
import { PolicyParams } from '@oarlock/admission-rules/policy-params';
import { ConfigurationSource } from '@oarlock/admission-rules/configuration-source';
import { z } from 'zod';
import { evaluatePolicy, type Denial } from './evaluation.ts';
import { runTypeCheckingController } from './policy-status.ts';
import { compileBinding, compilePolicy, type CompiledValidatingBinding, type CompiledValidatingPolicy } from './validating-policy.ts';

type Policies = readonly PolicyHook<CompiledValidatingPolicy, CompiledValidatingBinding>[];
interface Denied {
  readonly message: string;
  readonly reason: string;
}
const failureKey = 'validation.policy.admission.k8s.io/validation_failure';

/** Validates requests by ValidatingAdmissionPolicies and their bindings. */
export default Admission.plugin({
  id: 'admission-validating-policy',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers, authz: Authz },
  create({ client, informers, authz }, { log }) {
    runTypeCheckingController(client, informers, log);
    let bound: Policies | undefined;
    const forget = () => {
      bound = undefined;
    };
    const policies = new ConfigurationSource(client, informers, { resource: validatingAdmissionPolicies, make: compilePolicy, changed: forget });
    const bindings = new ConfigurationSource(client, informers, { resource: validatingAdmissionPolicyBindings, make: compileBinding, changed: forget });
    const namespaces = new NamespaceObjects(informers, client);
    const params = new PolicyParams(client);
    const sort: PolicyResources = {
      policies: 'validatingadmissionpolicies',
      bindings: 'validatingadmissionpolicybindings',
      faults: (policy) => compilePolicy(policy).faults,
      paramKind: (name) => policies.get(name)?.paramKind,
      access: new ParamAccess(authz, params),
    };

    const current = async (): Promise<Policies> => {
      const [those, by] = await Promise.all([policies.all(), bindings.all()]);
      return toPolicyHooks(those, by);
    };
    const known = (): Policies | Promise<Policies> => {
      if (bound !== undefined) return bound;
      const [those, by] = [policies.all(), bindings.all()];
      if (those instanceof Promise || by instanceof Promise) return current();
      bound = toPolicyHooks(those, by);
      return bound;
    };

    const validateRequest = async (request: AdmissionRequest, of: Policies): Promise<AdmissionDecision> => {
      const denied: Denied[] = [];
      const annotations = new Map<string, string[]>();
      const failures: object[] = [];
      await dispatch(
        of,
        request,
        { namespaces, params, authz },
        () => request.object,
        async ({ policy, binding, bindings }) => {
          const { denials, annotations: own } = await evaluatePolicy(policy, bindings);
          for (const denial of denials) applyValidationAction(request, policy, binding, denial, denied, failures);
          for (const { key, value } of own) add(annotations, `${policy.name}/${key}`, value);
        },
        ({ policy, binding, message }) => denied.push({ message: rejectedBy(policy.name, binding?.name, message), reason: 'Invalid' }),
      );
      for (const [key, values] of annotations) request.annotate(key, values.join(', '));
      if (failures.length > 0) request.annotate(failureKey, JSON.stringify(failures));
      const [first] = denied;
      return first === undefined ? allow : deny(first.message, { status: policyRejection(request, first.message, first.reason) });
    };

    return {
      matches: [{ resources: ['*'], operations: ['*'] }],
      isIdle: (_, { group }) => policies.empty && group !== configurationGroup,
      validate(request): AdmissionDecision | Promise<AdmissionDecision> {
        if (request.resource.group === configurationGroup) return validateConfiguration(request, sort);
        const of = known();
        if (of instanceof Promise) return of.then((compiled) => validateRequest(request, compiled));
        return of.some(({ policy }) => policy.matcher.covers(request)) ? validateRequest(request, of) : allow;
      },
    };
  },
});

const rejectedBy = (policy: string, binding: string | undefined, message: string) =>
  `ValidatingAdmissionPolicy '${policy}'${binding === undefined ? '' : ` with binding '${binding}'`} denied request: ${message}`;

function applyValidationAction(
  request: AdmissionRequest,
  policy: CompiledValidatingPolicy,
  binding: CompiledValidatingBinding,
  { index, message, reason }: Denial,
  denied: Denied[],
  failures: object[],
): void {
  for (const action of binding.actions) {
    if (action === 'Deny') denied.push({ message: rejectedBy(policy.name, binding.name, message), reason });
    else if (action === 'Warn')
      request.warn(`Validation failed for ValidatingAdmissionPolicy '${policy.name}' with binding '${binding.name}': ${message}`);
    else if (action === 'Audit')
      failures.push({
        message,
        policy: policy.name,
        binding: binding.name,
        expressionIndex: Math.max(0, index),
        validationActions: binding.actions,
      });
  }
}

function add(annotations: Map<string, string[]>, key: string, value: string): void {
  const values = annotations.get(key);
  if (values === undefined) annotations.set(key, [value]);
  else if (!values.includes(value)) values.push(value);
}
