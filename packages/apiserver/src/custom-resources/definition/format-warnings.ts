import type { CustomResourceDefinition, JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { isObject } from '@oarlock/api/json/json';
import { formatOf } from '../schema/formats.ts';

/** The members of a schema that contain one schema, a list of schemas, or schemas by name. */
const schemaMembers = ['items', 'additionalProperties', 'not'] as const;
const schemaLists = ['allOf', 'anyOf', 'oneOf'] as const;

/** Adds the formats of strings that the server does not validate. */
function collectFormats(schema: JSONSchemaProps, formats: Set<string>): void {
  if (schema.type === 'string' && schema.format && formatOf(schema.format) === undefined) formats.add(schema.format);
  for (const property of Object.values(schema.properties ?? {})) collectFormats(property, formats);
  for (const member of schemaMembers) {
    const child: unknown = schema[member];
    if (isObject(child)) collectFormats(child, formats);
  }
  for (const list of schemaLists) for (const child of schema[list] ?? []) collectFormats(child, formats);
}

function unrecognizedFormats({ spec }: CustomResourceDefinition): ReadonlySet<string> {
  const formats = new Set<string>();
  for (const { schema } of spec?.versions ?? []) if (schema?.openAPIV3Schema !== undefined) collectFormats(schema.openAPIV3Schema, formats);
  return formats;
}

/** Returns a warning for each string format that no validation knows. An update has none for the formats that the old schemas have. */
export function formatWarnings(definition: CustomResourceDefinition, old: CustomResourceDefinition | undefined): readonly string[] {
  const known = old === undefined ? new Set<string>() : unrecognizedFormats(old);
  return [...unrecognizedFormats(definition)]
    .filter((format) => !known.has(format))
    .map((format) => `unrecognized format ${JSON.stringify(format)}`);
}
