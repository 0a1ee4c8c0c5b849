import { customResourceDefinitions } from '@oarlock/api/resources';
import { resource } from '@oarlock/api/resource';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { Informer, Informers } from '@oarlock/spi/client';
import type { DiscoveredKind } from './discovered-kinds.ts';

const verbs: ReadonlySet<string> = new Set(['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']);

/** The kinds that CustomResourceDefinitions make, as long as they are served: each once, in the version in which it is stored where that is served. */
export class CustomKinds {
  readonly informer: Informer<CustomResourceDefinition>;

  constructor(informers: Informers) {
    this.informer = informers.of(customResourceDefinitions);
  }

  /** Tells what each definition makes, and that it makes nothing any more; by `<plural>.<group>`. Returns what ends that. */
  on(set: (name: string, kind: DiscoveredKind | undefined) => void): () => void {
    const put = (definition: CustomResourceDefinition) => set(definition.metadata?.name ?? '', kindOf(definition));
    return this.informer.on({
      added: put,
      updated: put,
      deleted: ({ metadata }) => set(metadata?.name ?? '', undefined),
    });
  }
}

function kindOf({ spec, status }: CustomResourceDefinition): DiscoveredKind | undefined {
  const established = status?.conditions?.some(({ type, status: is }) => type === 'Established' && is === 'True') === true;
  const served = spec.versions.filter((version) => version.served);
  const version = served.find(({ storage }) => storage) ?? served[0];
  if (!established || version === undefined) return undefined;
  return { resource: resource(spec.group, version.name, spec.names.plural, spec.names.kind, spec.scope === 'Namespaced'), verbs };
}
