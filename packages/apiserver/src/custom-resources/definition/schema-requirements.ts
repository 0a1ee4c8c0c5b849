import type { CustomResourceDefinition, JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import type { StoredExpressions } from '../cel/compilation.ts';
import { caBundleError } from './ca-bundle.ts';
import { isTrue } from './conditions.ts';
import { atomicSetErrors, mapKeyAndSetItemErrors } from './list-type-validation.ts';
import { hasUnprunedDefaults } from './schema-defaults.ts';
import { schemaHas } from './schema-traversal.ts';
import { validateStructure } from './structural-schema-validation.ts';

/** The types of values that OpenAPI has. */
export const schemaTypes: readonly string[] = ['array', 'boolean', 'integer', 'number', 'object', 'string'];

/**
 * The rules that a definition must obey. Kubernetes has tightened them over time, so an update need not obey a rule that the old definition breaks
 * (validationOptions upstream).
 */
export interface SchemaRequirements {
  /** The versions that must have a schema. */
  readonly schemas: 'all' | 'served' | 'none';
  /** Every type is one of `schemaTypes`. */
  readonly types: boolean;
  /** Schemas are structural (KEP-1693). */
  readonly structure: boolean;
  /** Defaults have no unknown fields. */
  readonly prunedDefaults: boolean;
  /** The items of lists of type set are atomic. */
  readonly atomicSets: boolean;
  /** The items and keys of lists of type set and map are present. */
  readonly mapKeysAndSetItems: boolean;
  /** A conversion webhook takes a version of ConversionReview that this server knows. */
  readonly knownReviewVersion: boolean;
  /** The certificates of a conversion webhook can be parsed. A definition that is not established may wait for a controller that sets them. */
  readonly validCaBundle: boolean;
  readonly expressions: StoredExpressions;
}

export const creationRequirements: SchemaRequirements = {
  schemas: 'all',
  types: true,
  structure: true,
  prunedDefaults: true,
  atomicSets: true,
  mapKeysAndSetItems: true,
  knownReviewVersion: true,
  validCaBundle: false,
  expressions: { isStoredRule: () => false, isStoredMessage: () => false },
};

const knownReviewVersions = ['v1', 'v1beta1'];
export const hasKnownReviewVersion = (versions: readonly string[]): boolean =>
  versions.some((version) => knownReviewVersions.includes(version));

const schemasOf = ({ spec }: CustomResourceDefinition): readonly JSONSchemaProps[] =>
  (spec.versions ?? []).flatMap(({ schema }) => schema?.openAPIV3Schema ?? []);

/** Returns the requirements for an update of a definition. */
export function updateRequirements(definition: CustomResourceDefinition, old: CustomResourceDefinition): SchemaRequirements {
  const schemas = schemasOf(old);
  const anyHas = (predicate: (schema: JSONSchemaProps) => boolean) => schemas.some((schema) => schemaHas(schema, predicate));
  const reviewVersions = old.spec.conversion?.webhook?.conversionReviewVersions ?? [];
  return {
    schemas: versionsWithSchemas(definition, old),
    types: !anyHas(({ type = '' }) => type !== '' && !schemaTypes.includes(type)),
    structure: mustBeStructural(definition) || !schemas.some((schema) => validateStructure(schema, '').length > 0),
    prunedDefaults: !schemas.some((schema) => validateStructure(schema, '').length === 0 && hasUnprunedDefaults(schema)),
    atomicSets: !anyHas((schema) => atomicSetErrors(schema, '').length > 0),
    mapKeysAndSetItems: !anyHas((schema) => mapKeyAndSetItemErrors(schema, '').length > 0),
    validCaBundle: isTrue(old, 'Established') && caBundleError(old.spec.conversion?.webhook?.clientConfig?.caBundle) === undefined,
    knownReviewVersion: reviewVersions.length === 0 || hasKnownReviewVersion(reviewVersions),
    expressions: storedExpressions(schemas),
  };
}

function versionsWithSchemas({ spec }: CustomResourceDefinition, old: CustomResourceDefinition): SchemaRequirements['schemas'] {
  if ((old.spec.versions ?? []).every(({ schema }) => schema?.openAPIV3Schema !== undefined)) return 'all';
  // a definition that prunes objects would remove all of their fields
  return spec.preserveUnknownFields === true ? 'none' : 'served';
}

const extensions = [
  'x-kubernetes-embedded-resource',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-int-or-string',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-list-type',
  'x-kubernetes-validations',
] as const;

/** Returns true if a definition prunes objects, sets defaults or uses extensions, which work with structural schemas only. */
function mustBeStructural(definition: CustomResourceDefinition): boolean {
  if (definition.spec.preserveUnknownFields !== true) return true;
  const usesStructure = (schema: JSONSchemaProps) =>
    (schema.default !== undefined && schema.default !== null) || extensions.some((name) => schema[name] !== undefined);
  return schemasOf(definition).some((schema) => schemaHas(schema, usesStructure));
}

function storedExpressions(schemas: readonly JSONSchemaProps[]): StoredExpressions {
  const rules = new Set<string>();
  const messages = new Set<string>();
  for (const root of schemas)
    schemaHas(root, (schema) => {
      for (const { rule, messageExpression } of schema['x-kubernetes-validations'] ?? []) {
        rules.add(rule);
        if (messageExpression) messages.add(messageExpression);
      }
      return false;
    });
  return { isStoredRule: (rule) => rules.has(rule), isStoredMessage: (message) => messages.has(message) };
}
