import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import { formatOf } from '../schema/formats.ts';
import { schemaHas } from './schema-traversal.ts';

/** Returns the formats of strings that the server does not validate. */
function unrecognizedFormats({ spec }: CustomResourceDefinition): ReadonlySet<string> {
  const formats = new Set<string>();
  for (const { schema } of spec?.versions ?? [])
    if (schema?.openAPIV3Schema !== undefined)
      schemaHas(schema.openAPIV3Schema, ({ type, format }) => {
        if (type === 'string' && format && formatOf(format) === undefined) formats.add(format);
        return false;
      });
  return formats;
}

/** Returns a warning for each string format that no validation knows. An update has none for the formats that the old schemas have. */
export function formatWarnings(definition: CustomResourceDefinition, old: CustomResourceDefinition | undefined): readonly string[] {
  const known = old === undefined ? new Set<string>() : unrecognizedFormats(old);
  return [...unrecognizedFormats(definition)]
    .filter((format) => !known.has(format))
    .map((format) => `unrecognized format ${JSON.stringify(format)}`);
}
