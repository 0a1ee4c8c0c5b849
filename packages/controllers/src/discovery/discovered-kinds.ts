import { kinds } from '@oarlock/api/kinds';
import { groupResource, type Resource } from '@oarlock/api/resource';
import type { Informers } from '@oarlock/spi/client';
import { watch, type ControllerWatch } from '@oarlock/spi/controller';
import { ApiServiceKinds, type ApiServiceKindsOptions } from './api-service-kinds.ts';
import { CustomKinds } from './custom-kinds.ts';
import type { DiscoveredKind } from './discovered-kind.ts';

export interface DiscoveredKindsHandler {
  added?(kind: DiscoveredKind): void;
  removed?(kind: DiscoveredKind): void;
}

interface KnownKind {
  readonly custom?: DiscoveredKind | undefined;
  readonly served?: DiscoveredKind | undefined;
}

const builtinResources: ReadonlySet<string> = new Set(kinds.filter(({ servedByDefault }) => servedByDefault).map(groupResource));
const sharedInstances = new WeakMap<Informers, DiscoveredKinds>();

/**
 * The kinds that are not built in: custom resources from their CustomResourceDefinitions, and resources of extension API servers from
 * discovery. Each resource appears once, in one version. All controllers of a process share one instance, which is populated while it has
 * handlers.
 */
export class DiscoveredKinds {
  readonly #informers: Informers;
  readonly #customKinds: CustomKinds;
  readonly #apiServiceKinds: ApiServiceKinds;
  readonly #knownKinds = new Map<string, KnownKind>();
  readonly #byKind = new Map<string, DiscoveredKind>();
  readonly #handlers = new Set<DiscoveredKindsHandler>();
  #served: ReadonlyMap<string, DiscoveredKind> = new Map();
  #stop: (() => void) | undefined;

  /** Returns the instance that all callers with the same informers share. */
  static shared(options: ApiServiceKindsOptions): DiscoveredKinds {
    let shared = sharedInstances.get(options.informers);
    if (shared === undefined) sharedInstances.set(options.informers, (shared = new DiscoveredKinds(options)));
    return shared;
  }

  private constructor(options: ApiServiceKindsOptions) {
    this.#informers = options.informers;
    this.#customKinds = new CustomKinds(options.informers);
    this.#apiServiceKinds = new ApiServiceKinds(options);
  }

  /** Returns watches of CustomResourceDefinitions and APIServices for a controller. When one changes, the keys from `keys` are enqueued. */
  watches(keys: () => Iterable<string> = () => []): readonly ControllerWatch[] {
    return [watch(this.#customKinds.informer, keys), watch(this.#apiServiceKinds.informer, keys)];
  }

  list(): readonly DiscoveredKind[] {
    return [...this.#knownKinds.values()].flatMap(({ custom, served }) => custom ?? served ?? []);
  }

  /** Returns the kind with the name `<plural>.<group>`, or undefined. */
  get(name: string): DiscoveredKind | undefined {
    const { custom, served } = this.#knownKinds.get(name) ?? {};
    return custom ?? served;
  }

  /** Returns the resource for the group and kind of an owner reference, regardless of the version, or undefined. */
  find(group: string, kind: string): Resource | undefined {
    return this.#byKind.get(`${group}/${kind}`)?.resource;
  }

  /** Group versions whose discovery requests fail. */
  get failingGroupVersions(): readonly string[] {
    return this.#apiServiceKinds.failingGroupVersions;
  }

  /** Returns true if a server of the cluster has registered the group version of a resource, although the server of this client may not serve it. */
  isRegistered({ group, version }: Resource): boolean {
    return this.#apiServiceKinds.informer.get(`${version}.${group}`) !== undefined;
  }

  /** Resolves when the kinds of all known CustomResourceDefinitions and APIServices have been read, or could not be read. */
  whenRead(): Promise<void> {
    return this.#apiServiceKinds.whenRead();
  }

  /**
   * Calls the handler for existing kinds, and whenever a kind is added or removed. The returned function removes the handler, after reporting
   * all kinds as removed. For `Controller.addDynamicWatches`.
   */
  on(handler: DiscoveredKindsHandler = {}): () => void {
    const registered = { ...handler };
    for (const kind of this.list()) registered.added?.(kind);
    this.#handlers.add(registered);
    this.#stop ??= this.#start();
    return () => {
      if (!this.#handlers.delete(registered)) return;
      for (const kind of this.list()) registered.removed?.(kind);
      if (this.#handlers.size > 0) return;
      this.#stop?.();
      this.#stop = undefined;
      for (const { resource } of this.list()) this.#informers.release?.(resource);
      this.#knownKinds.clear();
      this.#byKind.clear();
      this.#served = new Map();
    };
  }

  #start(): () => void {
    const stops = [
      this.#customKinds.on((name, custom) => this.#updateKind(name, { ...this.#knownKinds.get(name), custom })),
      this.#apiServiceKinds.on(() => this.#applyServed(this.#apiServiceKinds.list())),
    ];
    return () => {
      for (const end of stops) end();
    };
  }

  #applyServed(served: ReadonlyMap<string, DiscoveredKind>): void {
    for (const name of this.#served.keys())
      if (!served.has(name)) this.#updateKind(name, { ...this.#knownKinds.get(name), served: undefined });
    this.#served = served;
    for (const [name, kind] of served)
      if (!builtinResources.has(name)) this.#updateKind(name, { ...this.#knownKinds.get(name), served: kind });
  }

  /** Updates one resource. If a CustomResourceDefinition and an extension API server both provide the resource, the definition takes precedence. */
  #updateKind(name: string, next: KnownKind): void {
    const before = this.get(name);
    const after = next.custom ?? next.served;
    const isUnchanged = before !== undefined && after !== undefined && isSame(before, after);
    if (after === undefined) this.#knownKinds.delete(name);
    else this.#knownKinds.set(name, next);
    if (isUnchanged) {
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
