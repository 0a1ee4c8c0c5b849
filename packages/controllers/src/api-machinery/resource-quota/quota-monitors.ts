import { kinds as ownKinds } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { resourcesOfQuotaName } from '@oarlock/api/quota/quota';
import { groupResource, resource as resourceOf, type Resource } from '@oarlock/api/resource';
import type { ResourceQuota } from '@oarlock/api/types/core-v1';
import type { Informer, Informers } from '@oarlock/spi/client';
import { watch, type ControllerWatch } from '@oarlock/spi/controller';
import type { DiscoveredKinds } from '../../discovery/discovered-kinds.ts';

/** Verbs that a resource must support to be monitored, as upstream. */
const requiredVerbs = ['create', 'delete', 'list', 'watch'] as const;
const builtinResources: ReadonlyMap<string, { readonly resource: Resource; readonly verbs: ReadonlySet<string> }> = new Map(
  ownKinds
    .filter(({ namespaced, servedByDefault }) => namespaced && servedByDefault)
    .map(({ group, version, resource, kind, namespaced, verbs }) => {
      const known = resourceOf<KubeObject>(group, version, resource, kind, namespaced);
      return [groupResource(known), { resource: known, verbs: new Set(verbs) }];
    }),
);

export interface QuotaMonitorsOptions {
  readonly informers: Informers;
  readonly quotas: Informer<ResourceQuota>;
  readonly kinds: DiscoveredKinds;
  /** Group resources that are monitored even if no ResourceQuota constrains them. */
  readonly alwaysMonitored: ReadonlySet<string>;
  /** Returns the keys of the ResourceQuotas that a change of an object affects. */
  affectedQuotas(kind: string, object: KubeObject, old: KubeObject | undefined): Iterable<string>;
}

/**
 * Watches of the resources that ResourceQuotas constrain. A watch starts when a ResourceQuota constrains the resource and the API server
 * serves the resource.
 */
export class QuotaMonitors {
  readonly #options: QuotaMonitorsOptions;
  readonly #monitors = new Map<string, () => void>();
  readonly #quotaResources = new Set<string>();

  constructor(options: QuotaMonitorsOptions) {
    this.#options = options;
  }

  /** Returns the resource with this group resource name, or undefined if it is unknown or not namespaced. */
  resource(kind: string): Resource | undefined {
    return this.#kind(kind)?.resource;
  }

  /** Returns true if changes of this resource trigger reconciles of ResourceQuotas. */
  isMonitored(kind: string): boolean {
    return this.#options.alwaysMonitored.has(kind) || this.#monitors.has(kind);
  }

  /** Starts adding watches (`Controller.addDynamicWatches`). Returns a function that stops all watches. */
  start(add: (watch: ControllerWatch) => () => void): () => void {
    const { quotas, kinds, affectedQuotas } = this.#options;
    const startMonitor = (name: string) => {
      const kind = this.#quotaResources.has(name) && !this.isMonitored(name) ? this.#kind(name) : undefined;
      if (kind === undefined || !requiredVerbs.every((verb) => kind.verbs.has(verb))) return;
      const watched = watch(this.#options.informers.forResource(kind.resource), (object, old) => affectedQuotas(name, object, old));
      this.#monitors.set(name, add(watched));
    };
    const addQuotaResources = ({ spec }: ResourceQuota) => {
      for (const subject of new Set(Object.keys(spec?.hard ?? {}).flatMap(resourcesOfQuotaName)))
        if (!this.#quotaResources.has(subject)) {
          this.#quotaResources.add(subject);
          startMonitor(subject);
        }
    };
    const removeHandlers = [
      quotas.addEventHandler({ onAdd: addQuotaResources, onUpdate: addQuotaResources }),
      kinds.on({
        added: ({ resource }) => {
          const name = groupResource(resource);
          if (!this.#quotaResources.has(name)) return;
          startMonitor(name);
          // existing quotas have not counted this resource so far
          add(watch(quotas, (quota) => (isConstrainedBy(quota, name) ? [keyOf(quota)] : [])))();
        },
        removed: ({ resource }) => {
          this.#monitors.get(groupResource(resource))?.();
          this.#monitors.delete(groupResource(resource));
        },
      }),
    ];
    return () => {
      for (const end of [...removeHandlers, ...this.#monitors.values()]) end();
      this.#monitors.clear();
      this.#quotaResources.clear();
    };
  }

  #kind(name: string) {
    const found = builtinResources.get(name) ?? this.#options.kinds.get(name);
    return found?.resource.namespaced === true ? found : undefined;
  }
}

const keyOf = ({ metadata }: ResourceQuota): string => `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`;
const isConstrainedBy = ({ spec }: ResourceQuota, kind: string): boolean =>
  Object.keys(spec?.hard ?? {}).some((name) => resourcesOfQuotaName(name).includes(kind));
