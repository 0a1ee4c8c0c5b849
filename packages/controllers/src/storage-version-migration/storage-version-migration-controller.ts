import { kinds as ownKinds } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { groupResource, resource as resourceOf, type Resource } from '@oarlock/api/resource';
import { storageVersionMigrationsV1beta1 } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { StorageVersionMigration } from '@oarlock/api/types/storagemigration-v1beta1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { Client, Informers, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type Watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { DiscoveredKinds } from '../discovered-kinds.ts';
import { nameOf, typed } from '../pod-template.ts';
import { ServedResources } from '@oarlock/client/served-resources';
import { whenServed } from '../when-served.ts';

const pageSize = 500;
const fieldManager = 'storage-version-migrator-controller';
type End = 'Succeeded' | 'Failed';
const isDone = ({ status }: StorageVersionMigration) =>
  status?.conditions?.some(({ type, status: is }) => (type === 'Succeeded' || type === 'Failed') && is === 'True') ?? false;

interface Parts {
  readonly migrations: () => Informer<StorageVersionMigration>;
  readonly kinds: DiscoveredKinds;
  readonly served: ServedResources;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Has every object of a resource written anew, so that all are stored in the present version and with the present key (KEP-4192). */
export class StorageVersionMigrationController implements Controller {
  readonly name = 'storage-version-migrator';
  readonly workers = 1;
  readonly watches;
  readonly #parts: Parts;
  #migrations: Informer<StorageVersionMigration> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.watches = parts.kinds.watches();
  }

  follow(add: (watch: Watch) => () => void): () => void {
    const { served, log, migrations, kinds } = this.#parts;
    const leave = kinds.on();
    const off = whenServed(
      served,
      storageVersionMigrationsV1beta1,
      log,
      () => {
        this.#migrations = migrations();
        return watch(this.#migrations, (migration) => (isDone(migration) ? [] : [migration.metadata?.name ?? '']));
      },
      add,
    );
    return () => {
      off();
      leave();
    };
  }

  async reconcile(name: string, { client, signal }: ReconcileContext): Promise<void> {
    const migration = this.#migrations?.get(name);
    if (migration === undefined || isDone(migration) || migration.metadata?.deletionTimestamp !== undefined) return;
    const { group = '', resource: plural = '' } = migration.spec?.resource ?? {};
    await this.#parts.kinds.settled();
    const resource = this.#resource(group, plural);
    if (resource === undefined || !(await this.#parts.served.has(resource))) {
      await this.#end(migration, 'Failed', `the server has no resource ${group === '' ? plural : `${plural}.${group}`}`, client);
      return;
    }
    const running = await this.#begin(migration, resource, client);
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
      for (const object of page.items) await rewrite(resource, object, client);
      next = page.metadata?.continue;
    } while (next !== undefined && next !== '');
    await this.#end(running, 'Succeeded', '', client);
  }

  /** In the version that the server prefers, which is the one it stores where nothing else is said. */
  #resource(group: string, plural: string): Resource | undefined {
    const kind = ownKinds.find((each) => each.group === group && each.resource === plural && each.servedByDefault);
    if (kind !== undefined) return resourceOf(kind.group, kind.version, kind.resource, kind.kind, kind.namespaced);
    return this.#parts.kinds.get(groupResource({ group, resource: plural }))?.resource;
  }

  /** Objects written after the version that is noted here need no migration. */
  async #begin(migration: StorageVersionMigration, resource: Resource, client: Client): Promise<StorageVersionMigration> {
    if (migration.status?.conditions?.some(({ type, status }) => type === 'Running' && status === 'True')) return migration;
    const { metadata } = await client.list(resource, { limit: 1 });
    return this.#write(migration, 'Running', 'StorageVersionMigrationInProgress', '', client, metadata?.resourceVersion);
  }

  async #end(migration: StorageVersionMigration, end: End, message: string, client: Client): Promise<void> {
    await this.#write(migration, end, `StorageVersionMigration${end}`, message, client);
  }

  #write(
    migration: StorageVersionMigration,
    type: string,
    reason: string,
    message: string,
    client: Client,
    resourceVersion?: string,
  ): Promise<StorageVersionMigration> {
    const now = formatTime(this.#parts.clock.now());
    const others = (migration.status?.conditions ?? []).flatMap((each) =>
      each.type === type ? [] : [each.type === 'Running' ? { ...each, status: 'False', lastTransitionTime: now } : each],
    );
    return client.update(
      storageVersionMigrationsV1beta1,
      {
        ...typed(storageVersionMigrationsV1beta1, migration),
        status: {
          ...migration.status,
          ...(resourceVersion !== undefined && { resourceVersion }),
          conditions: [...others, { type, status: 'True', reason, message, lastTransitionTime: now }],
        },
      },
      { subresource: 'status' },
    );
  }
}

/** A change of nothing, of this object and no other. Whoever changed it meanwhile has written it anew. */
async function rewrite(resource: Resource, object: KubeObject, client: Client): Promise<void> {
  const { uid, resourceVersion } = object.metadata ?? {};
  try {
    await client.patch(resource, nameOf(object), 'merge', { metadata: { uid, resourceVersion } }, { fieldManager });
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
      migrations: () => informers.of(storageVersionMigrationsV1beta1),
      kinds: DiscoveredKinds.of({ informers, client, clock, log, random: Math.random }),
      served: new ServedResources(client),
      clock,
      log,
    }),
});
