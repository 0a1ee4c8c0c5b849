import type { Schema } from '@oarlock/api/schema/schema';
import { bool, bytes, double, dyn, int, list, map, string, timestamp, type ObjectType, type Type } from './type.ts';
import { escapeName } from './escaping.ts';

const types = new WeakMap<Schema, Type>();

/** Returns the CEL type of a built-in kind. Its fields are read from the schema tables on first use. */
export function builtinType(schema: Schema, name: string): Type {
  switch (schema.type) {
    case 'boolean':
      return bool;
    case 'integer':
      return int;
    case 'number':
      return double;
    case 'string':
      return textType(schema);
    case 'array':
      return schema.items === undefined ? dyn : list(builtinType(schema.items, `${name}.@idx`));
    case 'object': {
      if (schema.additionalProperties !== undefined) return map(string, builtinType(schema.additionalProperties, `${name}.@elem`));
      if (schema.properties === undefined || schema.properties.size === 0) return dyn;
      let type = types.get(schema);
      if (type === undefined) types.set(schema, (type = structType(schema.properties, schema.name ?? name)));
      return type;
    }
    default:
      return dyn;
  }
}

function textType({ format }: Schema): Type {
  switch (format) {
    case 'byte':
      return bytes;
    case 'date-time':
    case 'micro-time':
      return timestamp;
    case 'quantity':
    case 'int-or-string':
      return dyn;
    default:
      return string;
  }
}

function structType(properties: ReadonlyMap<string, Schema>, name: string): ObjectType {
  let fields: ReadonlyMap<string, Schema> | undefined;
  const known = () => (fields ??= new Map([...properties].map(([property, schema]) => [escapeName(property) ?? property, schema])));
  return {
    kind: 'object',
    name,
    field: (field) => {
      const schema = known().get(field);
      return schema === undefined ? undefined : builtinType(schema, `${name}.${field}`);
    },
    fields: () => known().keys(),
  };
}
