import { invalid, type FieldError } from '@oarlock/api/field/field-error';
import type { CustomResourceDefinition, CustomResourceDefinitionVersion } from '@oarlock/api/types/apiextensions-v1';
import { withFields } from '../../registry/strategy.ts';

/** Returns the version in which the objects of a definition are stored: the one with `storage: true`. Undefined if the definition has no versions. */
export function storageVersionOf({ spec }: CustomResourceDefinition): CustomResourceDefinitionVersion | undefined {
  return spec.versions.find(({ storage }) => storage) ?? spec.versions[0];
}

/** Adds the storage version to status.storedVersions, which lists every version that may be in storage until a client removes it. */
export function withStoredVersions(
  definition: CustomResourceDefinition,
  before: CustomResourceDefinition['status'],
): CustomResourceDefinition {
  const stored = before?.storedVersions ?? [];
  const added = (definition.spec?.versions ?? []).filter(({ name, storage }) => storage && !stored.includes(name));
  const status = { ...before, storedVersions: [...stored, ...added.map(({ name }) => name)] };
  return withFields(definition, { status }) as CustomResourceDefinition;
}

/** Validates status.storedVersions, also on updates of the status. */
export function storedVersionErrors({ spec, status }: CustomResourceDefinition): readonly FieldError[] {
  const path = 'status.storedVersions';
  const stored = status?.storedVersions ?? [];
  if (stored.length === 0) return [invalid(path, stored, 'must have at least one stored version')];
  const versions = (spec.versions ?? []).map(({ name }) => name);
  return stored.flatMap((name, i) => (versions.includes(name) ? [] : [invalid(`${path}[${i}]`, name, 'must appear in spec.versions')]));
}
