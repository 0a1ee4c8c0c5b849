import { describe, expect, it } from 'vitest';
import { kinds } from '../../src/kinds.ts';
import type { KubeObject } from '../../src/object.ts';
import { conformToSchema } from '../../src/schema/conform.ts';
import { withNonOmittedFields } from '../../src/schema/non-omitted-fields.ts';
import { schemaOf, type Schema } from '../../src/schema/schema.ts';
import { apiVersionOf } from '../../src/resource.ts';
import { builtinFieldManager } from './support/builtin-field-manager.ts';

const [created, updated] = [Date.UTC(2026, 0, 1), Date.UTC(2026, 0, 2)];

/** The value of all fields of a generated object from `depth` on: the empty value of their type, null, or none. */
type Leaf = 'empty' | 'null' | 'absent';
const formats: Readonly<Record<string, unknown>> = { quantity: '0', 'int-or-string': 0, 'date-time': null, 'micro-time': null };

function emptyOf({ type, format }: Schema): unknown {
  if (format !== undefined && Object.hasOwn(formats, format)) return formats[format];
  return { object: {}, array: [], integer: 0, number: 0, boolean: false, string: '', any: {} }[type];
}

/** Returns a value with one item per list and map down to `depth`, where all fields are the leaf. */
function generate(schema: Schema, leaf: Leaf, depth: number): unknown {
  if (depth === 0) return leaf === 'empty' ? emptyOf(schema) : leaf === 'null' ? null : undefined;
  if (schema.properties !== undefined) {
    const fields = [...schema.properties].map(([name, property]) => [name, generate(property, leaf, depth - 1)] as const);
    return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
  }
  const values = schema.additionalProperties;
  if (values !== undefined) return { a: generate(values, leaf, depth) ?? emptyOf(values) };
  if (schema.items !== undefined) return [withKeys(schema, generate(schema.items, leaf, depth) ?? emptyOf(schema.items))];
  return emptyOf(schema);
}

/** Returns an item with the keys that identify it in its list. */
function withKeys({ items, listMapKeys = [] }: Schema, item: unknown): unknown {
  if (listMapKeys.length === 0) return item;
  const keys = listMapKeys.map((key) => [key, items?.properties?.get(key)?.type === 'string' ? 'a' : 1]);
  return { ...(item as object), ...Object.fromEntries(keys) };
}

const depths = [1, 2, 3, 4, 5, 6];
const leaves: readonly Leaf[] = ['empty', 'null', 'absent'];
const stored = kinds.filter(({ verbs }) => verbs.includes('update'));

/** Returns the object that storage returns for a submitted one. */
const store = (schema: Schema, object: KubeObject): KubeObject => withNonOmittedFields(schema, object);
/** Returns the object that a client sends back as the server decodes it: without managedFields, which a client may omit. */
function sendBack(schema: Schema, { metadata = {}, ...rest }: KubeObject): KubeObject {
  const { managedFields: _, ...sent } = metadata;
  return conformToSchema(schema, { ...rest, metadata: sent });
}

describe('an unchanged update', () => {
  it.each(stored.map((kind) => [`${apiVersionOf(kind)} ${kind.kind}`, kind] as const))(
    'keeps the managed fields of a created and of an applied %s, whatever is empty, null or absent',
    (_, kind) => {
      const schema = schemaOf(kind) as Schema;
      const manager = builtinFieldManager(kind);
      const head = { apiVersion: apiVersionOf(kind), kind: kind.kind, metadata: { name: 'a' } };
      for (const leaf of leaves)
        for (const depth of depths) {
          const config = { ...(generate(schema, leaf, depth) as object), ...head };
          const place = `${leaf} at depth ${depth}`;
          const object = store(schema, manager.update(undefined, conformToSchema(schema, config), 'creator', created));
          const again = manager.update(object, sendBack(schema, object), 'updater', updated);
          expect(again.metadata?.managedFields, `create, ${place}`).toEqual(object.metadata?.managedFields);
          const applied = store(schema, conformToSchema(schema, manager.apply(undefined, config, 'applier', false, created)));
          const back = manager.update(applied, sendBack(schema, applied), 'updater', updated);
          expect(back.metadata?.managedFields, `apply, ${place}`).toEqual(applied.metadata?.managedFields);
        }
    },
  );
});
