import type { FeatureGates } from '@oarlock/api/component-helpers/feature-gates';
import { kinds, type Kind } from '@oarlock/api/kinds';
import { groupResource } from '@oarlock/api/resource';
import type { CustomResources } from '../custom-resources/custom-resources.ts';
import type { ServiceAllocator } from '../registry/strategies/service-allocator.ts';
import {
  newServedKind,
  storedKind,
  cachedResource,
  type ServedKind,
  type StoredKind,
  type VersionConversion,
} from '../registry/served-kind.ts';
import { versionConversions } from '../registry/strategies/conversions.ts';
import { allStrategies, strategyOf } from '../registry/strategies/strategies.ts';
import type { Strategy } from '../registry/strategy.ts';
import { reviews } from '../endpoints/handlers/subresources/reviews.ts';
import type { ResourceCache, CachedResource } from '../watch-cache/resource-cache.ts';

const storageVerbs: ReadonlySet<string> = new Set(['get', 'list', 'watch']);
/** The subresources that have a handler. Other subresources are served if the kind has a strategy for them. */
const handledSubresources: ReadonlySet<string> = new Set([
  'pods/binding',
  'pods/eviction',
  'pods/log',
  'pods/exec',
  'pods/attach',
  'pods/portforward',
  'pods/proxy',
  'services/proxy',
  'nodes/proxy',
  'serviceaccounts/token',
  'deployments.apps/scale',
  'replicasets.apps/scale',
  'statefulsets.apps/scale',
  'replicationcontrollers/scale',
]);

const keyOf = ({ group, version, resource }: Pick<Kind, 'group' | 'version' | 'resource'>) => `${group}/${version}/${resource}`;

export interface ResourceCatalogOptions {
  /** True if Services and endpoints may have loopback addresses, because the pods of the cluster have loopback addresses. */
  readonly allowLoopback: boolean;
  readonly features: FeatureGates;
  isEnabled(kind: Kind): boolean;
}

/** The kinds that this server serves, with their strategies. */
export class ResourceCatalog {
  readonly resources: readonly CachedResource[];
  /** The built-in kinds that this server serves. */
  readonly #builtinKinds: readonly Kind[];
  #served: readonly Kind[] | undefined;
  #custom: CustomResources | undefined;
  /** The kinds in their storage version, of all resources that are served in any version. */
  readonly #storedKinds: readonly Kind[];
  readonly #strategies: ReadonlyMap<string, Strategy>;
  readonly #servedKinds = new Map<string, ServedKind>();
  readonly #allowLoopback: boolean;
  readonly #features: FeatureGates;
  #versions: { readonly of: readonly Kind[]; readonly by: Map<string, readonly ServedKind[]> } = { of: [], by: new Map() };

  constructor(allocator: ServiceAllocator, { allowLoopback, features, isEnabled }: ResourceCatalogOptions) {
    this.#allowLoopback = allowLoopback;
    this.#features = features;
    this.#strategies = allStrategies(allocator);
    this.#builtinKinds = kinds
      .filter((kind) => isEnabled(kind) && (isStored(kind) || isVirtual(kind)))
      .map((kind) => this.#withServedSubresources(kind));
    this.#storedKinds = storedKinds(this.#builtinKinds);
    this.resources = this.#storedKinds.map((kind) => cachedResource(kind, this.#strategy(kind)));
  }

  /** The served kinds with their served subresources, for routes and discovery. A new array after each change. */
  get served(): readonly Kind[] {
    if (this.#served === undefined) {
      const custom = (this.#custom?.kinds() ?? []).filter((kind) => !this.#servedKinds.has(keyOf(kind)));
      this.#served = custom.length === 0 ? this.#builtinKinds : [...this.#builtinKinds, ...custom];
    }
    return this.#served;
  }

  /** Adds the kinds of CustomResourceDefinitions. */
  addCustomResources(custom: CustomResources): void {
    this.#custom = custom;
    this.#served = undefined;
  }

  /** Rebuilds `served` on the next access, because the kinds of CustomResourceDefinitions changed. */
  invalidate(): void {
    this.#served = undefined;
  }

  /** Connects the kinds to the caches of their resources. Called once, after the watch cache is created. */
  setResourceCaches(cacheOf: (name: string) => ResourceCache): void {
    const stores = new Map<string, StoredKind>();
    const served = new Set(this.#builtinKinds.map(keyOf));
    for (const kind of this.#storedKinds) {
      const store = storedKind(kind, cacheOf(groupResource(kind)));
      stores.set(keyOf(kind), store);
      if (served.has(keyOf(kind))) this.#servedKinds.set(keyOf(kind), this.#newServedKind(kind, store, undefined));
    }
    for (const kind of this.#builtinKinds) {
      const other = versionConversions.get(keyOf(kind));
      const store = other && stores.get(other.stored);
      if (other && store) this.#servedKinds.set(keyOf(kind), this.#newServedKind(kind, store, other.conversion));
    }
  }

  find(group: string, version: string, resource: string): ServedKind | undefined {
    return this.#servedKinds.get(`${group}/${version}/${resource}`) ?? this.#custom?.find(group, version, resource);
  }

  /** Returns the kinds of all served versions of a resource. A new array after each change. */
  versions(kind: ServedKind): readonly ServedKind[] {
    const { served } = this;
    if (this.#versions.of !== served) this.#versions = { of: served, by: new Map() };
    let versions = this.#versions.by.get(kind.storedKind.storagePrefix);
    if (versions === undefined) {
      versions = served.flatMap(({ group, version, resource }) => {
        const other = this.find(group, version, resource);
        return other?.storedKind.storagePrefix === kind.storedKind.storagePrefix ? [other] : [];
      });
      this.#versions.by.set(kind.storedKind.storagePrefix, versions);
    }
    return versions;
  }

  #newServedKind(kind: Kind, store: StoredKind, conversion: VersionConversion | undefined): ServedKind {
    const [allowLoopback, features] = [this.#allowLoopback, this.#features];
    return newServedKind({ kind, store, strategy: this.#strategy(kind), conversion, allowLoopback, features });
  }

  #strategy(kind: Kind): Strategy {
    return strategyOf(this.#strategies, kind);
  }

  #withServedSubresources(kind: Kind): Kind {
    const resourceName = groupResource(kind);
    const rules = this.#strategy(kind).subresources ?? {};
    return {
      ...kind,
      subresources: kind.subresources.filter(
        ({ name }) => name === 'status' || name in rules || handledSubresources.has(`${resourceName}/${name}`),
      ),
    };
  }
}

/** Returns the kinds of the served resources in their storage version, even if that version is not served. */
function storedKinds(served: readonly Kind[]): readonly Kind[] {
  const keys = new Set(served.filter(isStored).map((kind) => versionConversions.get(keyOf(kind))?.stored ?? keyOf(kind)));
  return kinds.filter((kind) => keys.has(keyOf(kind)));
}

/** Returns true if objects of the kind are stored. componentstatuses are not stored, because they are computed. */
function isStored(kind: Kind): boolean {
  return kind.verbs.includes('create') && kind.verbs.some((verb) => storageVerbs.has(verb));
}

export function isVirtual(kind: Pick<Kind, 'group' | 'resource'>): boolean {
  return groupResource(kind) in reviews || (kind.group === '' && (kind.resource === 'bindings' || kind.resource === 'componentstatuses'));
}
