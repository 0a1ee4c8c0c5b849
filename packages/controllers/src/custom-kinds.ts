import { customResourceDefinitions } from '@oarlock/api/resources';
import { resource, type Resource } from '@oarlock/api/resource';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { Informer, Informers } from '@oarlock/spi/client';
import { watch, type Watch } from '@oarlock/spi/controller';

export interface CustomKindsHandler {
  added(resource: Resource): void;
  removed(resource: Resource): void;
}

/** The kinds that CustomResourceDefinitions make, as long as they are served: each once, in the version in which it is stored where that is served. */
export class CustomKinds {
  readonly #definitions: Informer<CustomResourceDefinition>;

  constructor(informers: Informers) {
    this.#definitions = informers.of(customResourceDefinitions);
  }

  /** For a controller to wait for: it wakes nobody. */
  get watch(): Watch {
    return watch(this.#definitions, () => []);
  }

  list(): readonly Resource[] {
    return this.#definitions.list().flatMap((definition) => resourceOf(definition) ?? []);
  }

  /** The kind that an owner reference names, whatever its version. */
  find(group: string, kind: string): Resource | undefined {
    for (const definition of this.#definitions.list()) {
      const found = definition.spec.group === group && definition.spec.names.kind === kind ? resourceOf(definition) : undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Tells of the kinds that there are, and of those that come and go; returns what ends that. */
  on(handler: CustomKindsHandler): () => void {
    const known = new Map<string, Resource>();
    const set = (name: string, next: Resource | undefined) => {
      const before = known.get(name);
      if (before?.version === next?.version && before?.namespaced === next?.namespaced) return;
      if (next === undefined) known.delete(name);
      else known.set(name, next);
      if (before !== undefined) handler.removed(before);
      if (next !== undefined) handler.added(next);
    };
    const put = (definition: CustomResourceDefinition) => set(definition.metadata?.name ?? '', resourceOf(definition));
    const off = this.#definitions.on({
      added: put,
      updated: put,
      deleted: ({ metadata }) => set(metadata?.name ?? '', undefined),
    });
    return () => {
      off();
      for (const each of known.values()) handler.removed(each);
      known.clear();
    };
  }
}

function resourceOf({ spec, status }: CustomResourceDefinition): Resource | undefined {
  const established = status?.conditions?.some(({ type, status: is }) => type === 'Established' && is === 'True') === true;
  const served = spec.versions.filter((version) => version.served);
  const version = served.find(({ storage }) => storage) ?? served[0];
  if (!established || version === undefined) return undefined;
  return resource(spec.group, version.name, spec.names.plural, spec.names.kind, spec.scope === 'Namespaced');
}
