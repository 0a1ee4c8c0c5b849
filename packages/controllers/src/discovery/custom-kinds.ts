import { customResourceDefinitions } from '@oarlock/api/resources';
import { resource } from '@oarlock/api/resource';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { Informer, Informers } from '@oarlock/spi/client';
import type { DiscoveredKind } from './discovered-kind.ts';

const verbs: ReadonlySet<string> = new Set(['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']);

/**
 * The kinds of established CustomResourceDefinitions. Each kind appears once: in the storage version if that version is served, otherwise in
 * the first served version.
 */
export class CustomKinds {
  readonly informer: Informer<CustomResourceDefinition>;

  constructor(informers: Informers) {
    this.informer = informers.forResource(customResourceDefinitions);
  }

  /**
   * Calls `onChange` for each CustomResourceDefinition, named `<plural>.<group>`, with its kind, or with undefined if the kind is no longer
   * served. Returns a function that removes the listener.
   */
  on(onChange: (name: string, kind: DiscoveredKind | undefined) => void): () => void {
    const put = (definition: CustomResourceDefinition) => onChange(definition.metadata?.name ?? '', kindOf(definition));
    return this.informer.addEventHandler({
      onAdd: put,
      onUpdate: put,
      onDelete: ({ metadata }) => onChange(metadata?.name ?? '', undefined),
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
