import type { Resource } from '@oarlock/api/resource';
import { customResourceDefinitions } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type {
  CustomResourceDefinition,
  CustomResourceDefinitionCondition,
  CustomResourceDefinitionStatus,
} from '@oarlock/api/types/apiextensions-v1';
import { formatTime } from '@oarlock/api/values/time';
import type { Client } from '@oarlock/spi/client';

const storageMigrating = 'StorageMigrating';
const updateAttempts = 5;

/** Reports a migration in the status of the CustomResourceDefinition of the migrated resource; built-in resources have none (KEP-4192). */
export class DefinitionMigration {
  readonly #client: Client;
  readonly #name: string;
  readonly #now: () => number;

  constructor(client: Client, { resource, group }: Resource, now: () => number) {
    this.#client = client;
    this.#name = `${resource}.${group}`;
    this.#now = now;
  }

  /** Sets the condition StorageMigrating, which records the generation at the start of the migration. */
  async start(migration: string): Promise<void> {
    await this.#updateStatus((definition) => ({
      conditions: this.#withCondition(definition, {
        status: 'True',
        reason: 'MigrationRunning',
        message: `Migration ${migration} is running`,
      }),
    }));
  }

  /**
   * Reports the success of the migration and reduces `storedVersions` to the storage version. Keeps them if the definition has changed during the
   * migration, because objects may have been stored in another version since.
   */
  async finish(): Promise<void> {
    await this.#updateStatus((definition) => {
      const { metadata, spec, status } = definition;
      const started = status?.conditions?.find(({ type }) => type === storageMigrating);
      const isSame = started?.observedGeneration !== undefined && started.observedGeneration === metadata?.generation;
      const result = isSame
        ? 'and the stored versions have been updated'
        : 'but the stored versions have not been updated due to a generation mismatch';
      return {
        conditions: this.#withCondition(definition, {
          status: 'False',
          reason: 'MigrationSucceeded',
          message: `The migration has succeeded ${result}`,
        }),
        ...(isSame && { storedVersions: spec.versions.filter(({ storage }) => storage).map(({ name }) => name) }),
      };
    });
  }

  async #updateStatus(change: (definition: CustomResourceDefinition) => CustomResourceDefinitionStatus): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        const definition = await this.#client.get(customResourceDefinitions, { name: this.#name });
        const status = { ...definition.status, ...change(definition) };
        await this.#client.update(customResourceDefinitions, { ...definition, status }, { subresource: 'status' });
        return;
      } catch (error) {
        if (isStatus(error, 'NotFound')) return;
        // the definition has changed since it was read
        if (!isStatus(error, 'Conflict') || attempt === updateAttempts) throw error;
      }
    }
  }

  #withCondition(
    { metadata, status }: CustomResourceDefinition,
    condition: Pick<CustomResourceDefinitionCondition, 'status' | 'reason' | 'message'>,
  ): readonly CustomResourceDefinitionCondition[] {
    const others = (status?.conditions ?? []).filter(({ type }) => type !== storageMigrating);
    const observed = metadata?.generation !== undefined && { observedGeneration: metadata.generation };
    return [...others, { type: storageMigrating, ...condition, lastTransitionTime: formatTime(this.#now()), ...observed }];
  }
}
