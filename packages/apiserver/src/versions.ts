import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Versions } from '@oarlock/spi/admission';
import type { Catalog } from './catalog.ts';
import { completed, type ServedKind } from './served-kind.ts';

/** The versions of a resource as rules of admission may name them; undefined where there is but the one. */
export function versionsOf(catalog: Catalog, { group, version, resource }: Resource): Versions | undefined {
  const kind = catalog.find(group, version, resource);
  const kinds = kind === undefined ? [] : catalog.versions(kind);
  if (kinds.length < 2) return undefined;
  return {
    resources: kinds.map((other) => other.resource),
    convert(object, to) {
      const from = kinds.find(({ apiVersion, gvk }) => object.apiVersion === apiVersion && object.kind === gvk.kind);
      const target = kinds.find((other) => other.resource.version === to.version && other.resource.group === to.group);
      return from === undefined || target === undefined || from === target ? object : converted(object, from, target);
    },
  };
}

function converted(object: KubeObject, from: ServedKind, to: ServedKind): KubeObject | Promise<KubeObject> {
  if (to.custom !== undefined) return to.custom.convert(object);
  const stored = from.conversion?.toStored(object) ?? object;
  return completed(to, to.conversion?.fromStored(stored) ?? stored);
}
