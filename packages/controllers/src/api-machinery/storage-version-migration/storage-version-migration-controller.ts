import { kinds as ownKinds } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { groupResource, resource as resourceOf, type Resource } from '@oarlock/api/resource';
import { storageVersionMigrationsV1beta1 } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { StorageVersionMigration } from '@oarlock/api/types/storagemigration-v1beta1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { Client, Informers, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ControllerWatch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { ConsistencyStore } from '../../expectations/consistency-store.ts';
import { DiscoveredKinds } from '../../discovery/discovered-kinds.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { ResourceDiscovery } from '@oarlock/client/resource-discovery';
import { watchWhenServed } from '../../discovery/watch-when-served.ts';
import { DefinitionMigration } from './definition-migration.ts';

const pageSize = 500;
const fieldManager = 'storage-version-migrator-controller';
type MigrationResult = 'Succeeded' | 'Failed';
const isDone = ({ status }: StorageVersionMigration) =>
  status?.conditions?.some(({ type, status: is }) => (type === 'Succeeded' || type === 'Failed') && is === 'True') ?? false;

interface StorageVersionMigrationControllerOptions {
  readonly migrations: () => Informer<StorageVersionMigration>;
  readonly kinds: DiscoveredKinds;
  readonly discovery: ResourceDiscovery;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Rewrites every object of a resource, so that all objects are stored in the current storage version and encrypted with the current key
 * (KEP-4192).
 */
export class StorageVersionMigrationController implements Controller {
  readonly name = 'storage-version-migrator';
  readonly concurrentReconciles = 1;
  readonly watches;
  readonly #options: StorageVersionMigrationControllerOptions;
  readonly #consistencyStore = new ConsistencyStore();
  #migrations: Informer<StorageVersionMigration> | undefined;

  constructor(options: StorageVersionMigrationControllerOptions) {
    this.#options = options;
    this.watches = options.kinds.watches();
  }

  addDynamicWatches(add: (watch: ControllerWatch) => () => void): () => void {
    const { discovery, log, migrations, kinds } = this.#options;
    const unfollowKinds = kinds.on();
    const stopWatch = watchWhenServed(discovery, storageVersionMigrationsV1beta1, {
      log,
      createWatch: () => {
        this.#migrations = migrations();
        return watch(this.#migrations, (migration) => {
          if (!isDone(migration)) return [migration.metadata?.name ?? ''];
          this.#consistencyStore.forget(migration.metadata?.uid);
          return [];
        });
      },
      add,
    });
    return () => {
      stopWatch();
      unfollowKinds();
    };
  }

  async reconcile(name: string, { client, signal }: ReconcileContext): Promise<void> {
    const migration = this.#migrations?.get(name);
    if (migration === undefined || isDone(migration) || migration.metadata?.deletionTimestamp !== undefined) return;
    // the event of the written version starts the next reconcile; the stale one would rewrite all objects again
    if (this.#consistencyStore.isStale(migration)) return;
    const { group = '', resource: plural = '' } = migration.spec?.resource ?? {};
    await this.#options.kinds.whenRead();
    const resource = this.#resource(group, plural);
    if (resource === undefined || !(await this.#options.discovery.has(resource))) {
      await this.#finish(migration, {
        result: 'Failed',
        message: `the server has no resource ${group === '' ? plural : `${plural}.${group}`}`,
        client,
      });
      return;
    }
    const definition = new DefinitionMigration(client, resource, () => this.#options.clock.now());
    const running = await this.#markRunning(migration, { resource, client, definition });
    let next: string | undefined;
    do {
      const page: { readonly items: readonly KubeObject[]; readonly metadata?: { readonly continue?: string } } = await client.list(
        resource,
        {
          limit: pageSize,
          ...(next !== undefined && { continue: next }),
          signal,
        },
      );
      for (const object of page.items) await rewriteObject(resource, object, client);
      next = page.metadata?.continue;
    } while (next !== undefined && next !== '');
    await definition.finish();
    await this.#finish(running, { result: 'Succeeded', message: '', client });
  }

  /** Returns the resource in the version that the API server prefers, which is the storage version by default. Undefined if it is not served. */
  #resource(group: string, plural: string): Resource | undefined {
    const kind = ownKinds.find((each) => each.group === group && each.resource === plural && each.servedByDefault);
    if (kind !== undefined) return resourceOf(kind.group, kind.version, kind.resource, kind.kind, kind.namespaced);
    return this.#options.kinds.get(groupResource({ group, resource: plural }))?.resource;
  }

  /** Sets the Running condition and records the current resource version: objects written after this resource version need no migration. */
  async #markRunning(
    migration: StorageVersionMigration,
    { resource, client, definition }: { readonly resource: Resource; readonly client: Client; readonly definition: DefinitionMigration },
  ): Promise<StorageVersionMigration> {
    if (migration.status?.conditions?.some(({ type, status }) => type === 'Running' && status === 'True')) return migration;
    await definition.start(migration.metadata?.name ?? '');
    const { metadata } = await client.list(resource, { limit: 1 });
    return this.#updateCondition(migration, 'Running', {
      reason: 'MigrationRunning',
      message: 'The migration is running',
      client,
      resourceVersion: metadata?.resourceVersion,
    });
  }

  async #finish(
    migration: StorageVersionMigration,
    { result, message, client }: { readonly result: MigrationResult; readonly message: string; readonly client: Client },
  ): Promise<void> {
    await this.#updateCondition(migration, result, { reason: `StorageVersionMigration${result}`, message, client });
  }

  /** Sets a condition. A migration that has ended no longer has the condition Running, as upstream. */
  async #updateCondition(
    migration: StorageVersionMigration,
    type: string,
    {
      reason,
      message,
      client,
      resourceVersion,
    }: { readonly reason: string; readonly message: string; readonly client: Client; readonly resourceVersion?: string | undefined },
  ): Promise<StorageVersionMigration> {
    const now = formatTime(this.#options.clock.now());
    const others = (migration.status?.conditions ?? []).filter((each) => each.type !== type && each.type !== 'Running');
    const updated = await client.update(
      storageVersionMigrationsV1beta1,
      {
        ...withTypeMeta(storageVersionMigrationsV1beta1, migration),
        status: {
          ...migration.status,
          ...(resourceVersion !== undefined && { resourceVersion }),
          conditions: [...others, { type, status: 'True', reason, message, lastTransitionTime: now }],
        },
      },
      { subresource: 'status' },
    );
    this.#consistencyStore.recordWrite(migration, updated);
    return updated;
  }
}

/**
 * Sends a no-op patch with the object's resource version as a precondition. Ignores Conflict, because the concurrent write has already
 * stored the object in the current version.
 */
async function rewriteObject(resource: Resource, object: KubeObject, client: Client): Promise<void> {
  const { uid, resourceVersion } = object.metadata ?? {};
  try {
    await client.patch(resource, objectName(object), 'merge', { metadata: { uid, resourceVersion } }, { fieldManager });
  } catch (error) {
    if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
  }
}

export default Controllers.plugin({
  id: 'controller-storage-version-migration',
  declares: { loop: 'storage-version-migrator' },
  config: z.strictObject({}),
  needs: { informers: Informers, client: Client },
  create: ({ informers, client }, { clock, log }) =>
    new StorageVersionMigrationController({
      migrations: () => informers.forResource(storageVersionMigrationsV1beta1),
      kinds: DiscoveredKinds.shared({ informers, client, clock, log, random: Math.random }),
      discovery: new ResourceDiscovery(client),
      clock,
      log,
    }),
});
