import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { EquivalentResources } from '@oarlock/spi/admission';
import type { ResourceCatalog } from './resource-catalog.ts';
import { withDefaults, type ServedKind } from '../registry/served-kind.ts';

/** Returns the served versions of a resource, for rules with `matchPolicy: Equivalent`; undefined if there is only one version. */
export function equivalentResources(catalog: ResourceCatalog, { group, version, resource }: Resource): EquivalentResources | undefined {
  const kind = catalog.find(group, version, resource);
  const kinds = kind === undefined ? [] : catalog.versions(kind);
  if (kinds.length < 2) return undefined;
  return {
    resources: kinds.map((other) => other.resource),
    convert(object, to) {
      const from = kinds.find(({ apiVersion, gvk }) => object.apiVersion === apiVersion && object.kind === gvk.kind);
      const target = kinds.find((other) => other.resource.version === to.version && other.resource.group === to.group);
      return from === undefined || target === undefined || from === target ? object : convertBetween(object, from, target);
    },
  };
}

function convertBetween(object: KubeObject, from: ServedKind, to: ServedKind): KubeObject | Promise<KubeObject> {
  if (to.customResource !== undefined) return to.customResource.convert(object);
  const stored = from.conversion?.toStored(object) ?? object;
  return withDefaults(to, to.conversion?.fromStored(stored) ?? stored);
}
