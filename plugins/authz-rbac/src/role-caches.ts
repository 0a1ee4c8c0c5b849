import type { KubeObject } from '@oarlock/api/object';
import { clusterRoleBindings, clusterRoles, roleBindings, roles } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import type { Informer, Informers } from '@oarlock/spi/client';
import { GrantIndex } from './grants.ts';

/** The informers of roles and bindings, and the index that the informers keep current. */
export class RoleCaches {
  readonly index = new GrantIndex();
  readonly #informers = new Map<Resource, Informer>();

  constructor(informers: Informers) {
    const { index } = this;
    for (const resource of [clusterRoles, roles])
      this.#add(informers, resource, {
        put: (role) => index.putRole(role),
        remove: (role) => index.removeRole(role),
      });
    for (const resource of [clusterRoleBindings, roleBindings])
      this.#add(informers, resource, {
        put: (binding, old) => index.putBinding(binding, old),
        remove: (binding) => index.removeBinding(binding),
      });
  }

  /** Resolves when all caches are synced. */
  async whenSynced(signal: AbortSignal): Promise<void> {
    await Promise.all([...this.#informers.values()].map((informer) => informer.whenSynced(signal)));
  }

  /** Resolves when each key has been in the caches at least once. */
  async whenCached(keys: ReadonlyMap<Resource, readonly string[]>): Promise<void> {
    await Promise.all([...keys].map(([resource, wanted]) => this.#whenCached(resource, wanted)));
  }

  #whenCached(resource: Resource, keys: readonly string[]): Promise<void> | undefined {
    const informer = this.#informers.get(resource);
    const missing = new Set(keys.filter((key) => informer?.get(key) === undefined));
    if (informer === undefined || missing.size === 0) return undefined;
    return new Promise<void>((resolve) => {
      const removeHandler = informer.addEventHandler({
        onAdd({ metadata }) {
          missing.delete(metadata?.namespace ? `${metadata.namespace}/${metadata.name ?? ''}` : (metadata?.name ?? ''));
          if (missing.size > 0) return;
          resolve();
          queueMicrotask(() => removeHandler());
        },
      });
    });
  }

  #add<T extends KubeObject>(
    informers: Informers,
    resource: Resource<T>,
    { put, remove }: { put(object: T, old: T | undefined): void; remove(object: T): void },
  ): void {
    const informer = informers.forResource(resource);
    informer.addEventHandler({ onAdd: (object) => put(object, undefined), onUpdate: put, onDelete: remove });
    this.#informers.set(resource, informer as unknown as Informer);
  }
}
