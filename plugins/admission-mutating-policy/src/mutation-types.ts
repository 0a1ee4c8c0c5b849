import { dyn, string, type ObjectType } from '@oarlock/cel/types/type';

const anyField = /^Object(?:\.[A-Za-z_][A-Za-z0-9_]*)*$/;

/** Returns the CEL type of an apply configuration or of a part of one, in which any field may be set. */
const applied = (name: string): ObjectType => ({ kind: 'object', name, field: () => dyn, fields: () => [] });

export const objectType = applied('Object');
const patchFields: Readonly<Record<string, typeof dyn>> = { op: string, path: string, from: string, value: dyn };
export const jsonPatchType: ObjectType = {
  kind: 'object',
  name: 'JSONPatch',
  field: (name) => (Object.hasOwn(patchFields, name) ? patchFields[name] : undefined),
  fields: () => Object.keys(patchFields),
};

/** Returns the CEL struct type with this name in mutation expressions: `Object`, `Object.spec.template`, `JSONPatch`; undefined for other names. */
export function mutationStruct(name: string): ObjectType | undefined {
  if (name === 'JSONPatch') return jsonPatchType;
  if (name === 'Object') return objectType;
  return anyField.test(name) ? applied(name) : undefined;
}
