import type { Schema } from '@oarlock/api/schema/schema';
import { objectMetaSchema } from './pruning-and-defaulting.ts';
import type { SchemaNode } from './schema-node.ts';

/** A decoding schema that declares every field, so that only duplicate fields are errors. */
const anything: Schema = {
  type: 'any',
  get additionalProperties(): Schema {
    return anything;
  },
  get items(): Schema {
    return anything;
  },
};
const text: Schema = { type: 'string' };

/** A map of the declared fields that also contains every other field name. */
class OpenFields extends Map<string, Schema> {
  override get(name: string): Schema {
    return super.get(name) ?? anything;
  }
}

const cache = new WeakMap<SchemaNode, Schema>();

/** Returns the decoding schema for strict decoding: the fields that a schema declares, without types. */
export function strictSchema(node: SchemaNode | undefined): Schema {
  if (node === undefined) return anything;
  let schema = cache.get(node);
  if (schema === undefined) cache.set(node, (schema = make(node)));
  return schema;
}

function make(node: SchemaNode): Schema {
  if (node.intOrString) return anything;
  const { items, type } = node;
  if (type === 'array' || items !== undefined) {
    return {
      type: 'array',
      get items(): Schema {
        return strictSchema(items);
      },
    };
  }
  const names = node.propertyNames;
  const whole = node.root || node.embedded;
  if (type !== 'object' && type !== '') return anything;
  if (node.preserveUnknown && names.length === 0 && !whole) return anything;
  const { additional } = node;
  if (names.length === 0 && !whole && additional !== undefined) {
    return { type: 'object', additionalProperties: additional === true ? anything : strictSchema(additional) };
  }
  const fields = node.preserveUnknown || additional !== undefined ? new OpenFields() : new Map<string, Schema>();
  for (const name of names) fields.set(name, strictSchema(node.property(name)));
  if (whole) {
    fields.set('apiVersion', text);
    fields.set('kind', text);
    fields.set('metadata', objectMetaSchema);
  }
  return { type: 'object', properties: fields };
}
