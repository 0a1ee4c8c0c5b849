import { kinds, type Kind } from '@oarlock/api/kinds';
import { groupResource } from '@oarlock/api/resource';
import type { CustomResources } from './custom-resources/custom-resources.ts';
import type { ServiceRanges } from './service-ranges.ts';
import { servedKind, storedKind, storedResource, type ServedKind, type StoredKind } from './served-kind.ts';
import { conversions } from './strategy/conversions.ts';
import { strategies, strategyOf } from './strategy/table.ts';
import type { Strategy } from './strategy/strategy.ts';
import { reviews } from './subresources/reviews.ts';
import type { ResourceCache, StoredResource } from './watch-cache/resource-cache.ts';

const stored: ReadonlySet<string> = new Set(['get', 'list', 'watch']);
/** Subresources with a handler of their own; others are served where the kind has rules for them. */
const handled: ReadonlySet<string> = new Set([
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

/** Which of all kinds this server serves, and by which rules. */
export class Catalog {
  readonly resources: readonly StoredResource[];
  /** What is built in and served. */
  readonly #builtin: readonly Kind[];
  #served: readonly Kind[] | undefined;
  #custom: CustomResources | undefined;
  /** One version of each resource that is served in any. */
  readonly #stored: readonly Kind[];
  readonly #strategies: ReadonlyMap<string, Strategy>;
  readonly #kinds = new Map<string, ServedKind>();
  readonly #allowLoopback: boolean;
  #versions: { readonly of: readonly Kind[]; readonly by: Map<string, readonly ServedKind[]> } = { of: [], by: new Map() };

  constructor(ranges: ServiceRanges, allowLoopback: boolean, enabled: (kind: Kind) => boolean = ({ servedByDefault }) => servedByDefault) {
    this.#allowLoopback = allowLoopback;
    this.#strategies = strategies(ranges);
    this.#builtin = kinds.filter((kind) => enabled(kind) && (isStored(kind) || isVirtual(kind))).map((kind) => this.#narrowed(kind));
    this.#stored = storedKinds(this.#builtin);
    this.resources = this.#stored.map((kind) => storedResource(kind, this.#strategy(kind)));
  }

  /** What is served, for routes and discovery: only subresources that are served, too. The same array as long as nothing changes. */
  get served(): readonly Kind[] {
    if (this.#served === undefined) {
      const custom = (this.#custom?.kinds() ?? []).filter((kind) => !this.#kinds.has(keyOf(kind)));
      this.#served = custom.length === 0 ? this.#builtin : [...this.#builtin, ...custom];
    }
    return this.#served;
  }

  /** Serves these kinds, too. */
  extend(custom: CustomResources): void {
    this.#custom = custom;
    this.#served = undefined;
  }

  /** The kinds that definitions make have changed. */
  changed(): void {
    this.#served = undefined;
  }

  /** Once the cache has the resources. */
  connect(cacheOf: (name: string) => ResourceCache): void {
    const stores = new Map<string, StoredKind>();
    const served = new Set(this.#builtin.map(keyOf));
    for (const kind of this.#stored) {
      const store = storedKind(kind, cacheOf(groupResource(kind)));
      stores.set(keyOf(kind), store);
      if (served.has(keyOf(kind)))
        this.#kinds.set(keyOf(kind), servedKind(kind, store, this.#strategy(kind), undefined, this.#allowLoopback));
    }
    for (const kind of this.#builtin) {
      const other = conversions.get(keyOf(kind));
      const store = other && stores.get(other.stored);
      if (other && store)
        this.#kinds.set(keyOf(kind), servedKind(kind, store, this.#strategy(kind), other.conversion, this.#allowLoopback));
    }
  }

  find(group: string, version: string, resource: string): ServedKind | undefined {
    return this.#kinds.get(`${group}/${version}/${resource}`) ?? this.#custom?.find(group, version, resource);
  }

  /** The versions of a resource in which its objects are served; the same array as long as nothing changes. */
  versions(kind: ServedKind): readonly ServedKind[] {
    const { served } = this;
    if (this.#versions.of !== served) this.#versions = { of: served, by: new Map() };
    let versions = this.#versions.by.get(kind.store.prefix);
    if (versions === undefined) {
      versions = served.flatMap(({ group, version, resource }) => {
        const other = this.find(group, version, resource);
        return other?.store.prefix === kind.store.prefix ? [other] : [];
      });
      this.#versions.by.set(kind.store.prefix, versions);
    }
    return versions;
  }

  #strategy(kind: Kind): Strategy {
    return strategyOf(this.#strategies, kind);
  }

  #narrowed(kind: Kind): Kind {
    const what = groupResource(kind);
    const rules = this.#strategy(kind).subresources ?? {};
    return {
      ...kind,
      subresources: kind.subresources.filter(({ name }) => name === 'status' || name in rules || handled.has(`${what}/${name}`)),
    };
  }
}

/** What is stored of what is served: each resource in the one version of it that is, whether that is served or not. */
function storedKinds(served: readonly Kind[]): readonly Kind[] {
  const keys = new Set(served.filter(isStored).map((kind) => conversions.get(keyOf(kind))?.stored ?? keyOf(kind)));
  return kinds.filter((kind) => keys.has(keyOf(kind)));
}

/** Kinds with objects that can be made; componentstatuses only report. */
function isStored(kind: Kind): boolean {
  return kind.verbs.includes('create') && kind.verbs.some((verb) => stored.has(verb));
}

export function isVirtual(kind: Pick<Kind, 'group' | 'resource'>): boolean {
  return groupResource(kind) in reviews || (kind.group === '' && (kind.resource === 'bindings' || kind.resource === 'componentstatuses'));
}
