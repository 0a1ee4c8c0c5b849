import { customResourceDefinitions, validatingAdmissionPolicies } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ValidatingAdmissionPolicy } from '@oarlock/api/types/admissionregistration-v1';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client, Informers } from '@oarlock/spi/client';
import { customNames, typeChecking } from './type-checking.ts';

/**
 * Runs the controller that writes type-checking warnings to the status of policies, once per generation (validatingadmissionpolicy-status
 * controller upstream).
 */
export function runTypeCheckingController(client: Client, informers: Informers, log: Logger): void {
  const write = async (policy: ValidatingAdmissionPolicy, observedGeneration: number): Promise<void> => {
    const definitions = await Promise.all(customNames(policy).map((definition) => find(client, definition)));
    const checked = typeChecking(
      policy,
      definitions.filter((definition) => definition !== undefined),
    );
    const status = { ...policy.status, observedGeneration, typeChecking: checked };
    await client.update(validatingAdmissionPolicies, { ...policy, status }, { subresource: 'status' });
  };
  const look = (policy: ValidatingAdmissionPolicy): void => {
    const { generation, name = '' } = policy.metadata ?? {};
    if (generation === undefined || policy.status?.observedGeneration === generation) return;
    write(policy, generation).catch((error: unknown) => {
      // after a conflict the informer delivers the new version
      if (!isStatus(error, 'Conflict', 'NotFound'))
        log.warn({ policy: name, err: error }, 'writing the type checking status of a policy failed');
    });
  };
  informers.forResource(validatingAdmissionPolicies).addEventHandler({ onAdd: look, onUpdate: look });
}

async function find(client: Client, name: string): Promise<CustomResourceDefinition | undefined> {
  try {
    return await client.get(customResourceDefinitions, { name });
  } catch (error) {
    // a policy may exist before the CustomResourceDefinition
    if (isStatus(error, 'NotFound')) return undefined;
    throw error;
  }
}
