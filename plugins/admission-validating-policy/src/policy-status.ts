import { validatingAdmissionPolicies } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ValidatingAdmissionPolicy } from '@oarlock/api/types/admissionregistration-v1';
import type { Logger } from '@oarlock/kernel/logger';
import type { Client, Informers } from '@oarlock/spi/client';
import { typeChecking } from './type-checking.ts';

/** Writes down, once per generation of a policy, what the types of its kinds say against it. */
export function keepTypeChecking(client: Client, informers: Informers, log: Logger): void {
  const look = (policy: ValidatingAdmissionPolicy): void => {
    const { generation, name = '' } = policy.metadata ?? {};
    if (generation === undefined || policy.status?.observedGeneration === generation) return;
    const status = { ...policy.status, observedGeneration: generation, typeChecking: typeChecking(policy) };
    client.update(validatingAdmissionPolicies, { ...policy, status }, { subresource: 'status' }).catch((error: unknown) => {
      // whoever changed it since is heard of next
      if (!isStatus(error, 'Conflict', 'NotFound'))
        log.warn({ policy: name, err: error }, 'the type checking of a policy was not written down');
    });
  };
  informers.of(validatingAdmissionPolicies).on({ added: look, updated: look });
}
