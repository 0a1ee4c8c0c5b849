import { kinds } from '@oarlock/api/kinds';
import { groupResource, type Resource } from '@oarlock/api/resource';
import type { Informers } from '@oarlock/spi/client';
import { watch, type Watch } from '@oarlock/spi/controller';
import { ApiServiceKinds, type ApiServiceKindsOptions } from './api-service-kinds.ts';
import { CustomKinds } from './custom-kinds.ts';

/** A kind that the server has besides those of this API. */
export interface DiscoveredKind {
  readonly resource: Resource;
  /** What can be done with it, as discovery says: `list`, `watch`, `deletecollection`, ... */
  readonly verbs: ReadonlySet<string>;
}

export interface DiscoveredKindsHandler {
  added?(kind: DiscoveredKind): void;
  removed?(kind: DiscoveredKind): void;
}

interface Known {
  readonly custom?: DiscoveredKind | undefined;
  readonly served?: DiscoveredKind | undefined;
}

const own: ReadonlySet<string> = new Set(kinds.filter(({ servedByDefault }) => servedByDefault).map(groupResource));
const ofAll = new WeakMap<Informers, DiscoveredKinds>();

/**
 * The kinds that there are besides those that every Kubernetes has: custom resources as their definitions say, and those of extension API servers as
 * discovery says. Each once, in one version. One for all loops of a process. It knows something only while somebody follows it.
 */
export class DiscoveredKinds {
  readonly #informers: Informers;
  readonly #custom: CustomKinds;
  readonly #services: ApiServiceKinds;
  readonly #known = new Map<string, Known>();
  readonly #byKind = new Map<string, DiscoveredKind>();
  readonly #handlers = new Set<DiscoveredKindsHandler>();
  #served: ReadonlyMap<string, DiscoveredKind> = new Map();
  #end: (() => void) | undefined;

  /** The one that all who share these informers share. */
  static of(options: ApiServiceKindsOptions): DiscoveredKinds {
    let shared = ofAll.get(options.informers);
    if (shared === undefined) ofAll.set(options.informers, (shared = new DiscoveredKinds(options)));
    return shared;
  }

  private constructor(options: ApiServiceKindsOptions) {
    this.#informers = options.informers;
    this.#custom = new CustomKinds(options.informers);
    this.#services = new ApiServiceKinds(options);
  }

  /** For a controller to wait for; `keys` are woken when a definition or an APIService has changed. */
  watches(keys: () => Iterable<string> = () => []): readonly Watch[] {
    return [watch(this.#custom.informer, keys), watch(this.#services.informer, keys)];
  }

  list(): readonly DiscoveredKind[] {
    return [...this.#known.values()].flatMap(({ custom, served }) => custom ?? served ?? []);
  }

  /** `<plural>.<group>`. */
  get(name: string): DiscoveredKind | undefined {
    const { custom, served } = this.#known.get(name) ?? {};
    return custom ?? served;
  }

  /** The kind that an owner reference names, whatever its version. */
  find(group: string, kind: string): Resource | undefined {
    return this.#byKind.get(`${group}/${kind}`)?.resource;
  }

  /** Groups and versions of which it cannot be known right now what is in them. */
  get failing(): readonly string[] {
    return this.#services.failing;
  }

  /** Resolves when all has been read that definitions and APIServices so far say there is to read, or could not be. */
  settled(): Promise<void> {
    return this.#services.settled();
  }

  /** Tells of the kinds that there are, and of those that come and go; what this returns ends that, and tells that they have gone. For `Controller.follow`. */
  on(handler: DiscoveredKindsHandler = {}): () => void {
    const registered = { ...handler };
    for (const kind of this.list()) registered.added?.(kind);
    this.#handlers.add(registered);
    this.#end ??= this.#begin();
    return () => {
      if (!this.#handlers.delete(registered)) return;
      for (const kind of this.list()) registered.removed?.(kind);
      if (this.#handlers.size > 0) return;
      this.#end?.();
      this.#end = undefined;
      for (const { resource } of this.list()) this.#informers.release?.(resource);
      this.#known.clear();
      this.#byKind.clear();
      this.#served = new Map();
    };
  }

  #begin(): () => void {
    const ends = [
      this.#custom.on((name, custom) => this.#set(name, { ...this.#known.get(name), custom })),
      this.#services.on(() => this.#take(this.#services.list())),
    ];
    return () => {
      for (const end of ends) end();
    };
  }

  #take(served: ReadonlyMap<string, DiscoveredKind>): void {
    for (const name of this.#served.keys()) if (!served.has(name)) this.#set(name, { ...this.#known.get(name), served: undefined });
    this.#served = served;
    for (const [name, kind] of served) if (!own.has(name)) this.#set(name, { ...this.#known.get(name), served: kind });
  }

  /** Where a definition and an extension API server have the same, the definition is believed. */
  #set(name: string, next: Known): void {
    const before = this.get(name);
    const after = next.custom ?? next.served;
    const kept = before !== undefined && after !== undefined && isSame(before, after);
    if (after === undefined) this.#known.delete(name);
    else this.#known.set(name, next);
    if (kept) {
      this.#byKind.set(kindName(after), after);
      return;
    }
    if (before !== undefined) {
      if (this.#byKind.get(kindName(before)) === before) this.#byKind.delete(kindName(before));
      for (const handler of this.#handlers) handler.removed?.(before);
      this.#informers.release?.(before.resource);
    }
    if (after === undefined) return;
    this.#byKind.set(kindName(after), after);
    for (const handler of this.#handlers) handler.added?.(after);
  }
}

const kindName = ({ resource }: DiscoveredKind): string => `${resource.group}/${resource.kind}`;

const isSame = (a: DiscoveredKind, b: DiscoveredKind): boolean =>
  a.resource.version === b.resource.version &&
  a.resource.kind === b.resource.kind &&
  a.resource.namespaced === b.resource.namespaced &&
  a.verbs.size === b.verbs.size &&
  [...a.verbs].every((verb) => b.verbs.has(verb));
