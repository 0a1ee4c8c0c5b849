import { dyn, string, type ObjectType } from '@oarlock/cel/types/type';

const anyField = /^Object(?:\.[A-Za-z_][A-Za-z0-9_]*)*$/;

/** The type of an apply configuration or a part of it: any field may be set. */
const applied = (name: string): ObjectType => ({ kind: 'object', name, field: () => dyn, fields: () => [] });

export const objectType = applied('Object');
const patchFields: Readonly<Record<string, typeof dyn>> = { op: string, path: string, from: string, value: dyn };
export const jsonPatchType: ObjectType = {
  kind: 'object',
  name: 'JSONPatch',
  field: (name) => (Object.hasOwn(patchFields, name) ? patchFields[name] : undefined),
  fields: () => Object.keys(patchFields),
};

/** Returns the struct types of mutation expressions: `Object`, `Object.spec.template`, `JSONPatch`. */
export function mutationStruct(name: string): ObjectType | undefined {
  if (name === 'JSONPatch') return jsonPatchType;
  if (name === 'Object') return objectType;
  return anyField.test(name) ? applied(name) : undefined;
}
