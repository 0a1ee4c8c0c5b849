import { customNames, typeChecking } from '@oarlock/admission-rules/type-checking';
import { customResourceDefinitions, validatingAdmissionPolicies } from '@oarlock/api/resources';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { ignoreNotFound } from '../../errors/ignore-not-found.ts';

const name = 'validatingadmissionpolicy-status';

/**
 * Type-checks the expressions of each generation of a ValidatingAdmissionPolicy, and writes the warnings to the policy's status. As upstream, a
 * policy is not checked again when a CustomResourceDefinition changes.
 */
export default Controllers.plugin({
  id: 'controller-validating-admission-policy-status',
  declares: { loop: name },
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const policies = informers.forResource(validatingAdmissionPolicies);
    const definitions = informers.forResource(customResourceDefinitions);
    return {
      name,
      watches: [watch(policies, ({ metadata }) => [metadata?.name ?? '']), watch(definitions, () => [])],
      async reconcile(key, { client, signal }) {
        const policy = policies.get(key);
        const generation = policy?.metadata?.generation ?? 0;
        if (policy === undefined || generation <= (policy.status?.observedGeneration ?? 0)) return;
        const names = customNames(policy);
        // the cache may not show a CustomResourceDefinition that was created just before the policy
        if (names.some((each) => definitions.get(each) === undefined)) await definitions.refresh(signal);
        const known = names.map((each) => definitions.get(each)).filter((each) => each !== undefined);
        const status = {
          apiVersion: 'admissionregistration.k8s.io/v1',
          kind: 'ValidatingAdmissionPolicy',
          metadata: { name: key },
          status: { observedGeneration: generation, typeChecking: typeChecking(policy, known) },
        };
        const options = { subresource: 'status', fieldManager: `${name}-controller`, force: true };
        await ignoreNotFound(() => client.patch(validatingAdmissionPolicies, { name: key }, 'apply', status, options));
      },
    };
  },
});
