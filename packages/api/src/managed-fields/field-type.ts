/** How values merge: the part of a schema that server-side apply uses. */
export interface FieldType {
  /** The scalar type, or undefined if the value is not a scalar. */
  readonly scalar?: 'string' | 'number' | 'boolean' | 'untyped' | undefined;
  readonly list?: ListType | undefined;
  readonly map?: MapType | undefined;
}

export interface ListType {
  /** An atomic list has one owner; items of a set are identified by their value, items of a map by their keys. */
  readonly relation: 'atomic' | 'set' | 'map';
  /** Sorted. */
  readonly keys: readonly string[];
  readonly items: FieldType;
}

export interface MapType {
  readonly atomic: boolean;
  /** Members with a name in the schema. */
  readonly fields: ReadonlyMap<string, Field>;
  /** The type of all other members, or undefined if the schema allows none. */
  readonly values: FieldType | undefined;
  /** Fields that exist in Go even if the JSON object does not contain them. */
  readonly standing: readonly Field[];
}

export interface Field {
  readonly name: string;
  /** `f:` and the name. */
  readonly element: string;
  readonly type: FieldType;
  /** The value of a field that JSON omits: the zero value of a Go field without a pointer. Frozen. */
  readonly standing: unknown;
  /** True if Go omits the zero value: an object that contains it counts as without the field. */
  readonly omitsZero: boolean;
  /** The value of a list map key that an item omits. */
  readonly keyDefault: unknown;
}

/** Any value: lists are atomic, maps merge. Used without a schema, such as under x-kubernetes-preserve-unknown-fields. */
export const deducedType: FieldType = {
  scalar: 'untyped',
  get list(): ListType {
    return { relation: 'atomic', keys: [], items: deducedType };
  },
  get map(): MapType {
    return deducedMap;
  },
};
const deducedMap: MapType = { atomic: false, fields: new Map(), values: deducedType, standing: [] };

/** Any value, owned as a whole. */
export const atomicType: FieldType = {
  scalar: 'untyped',
  list: { relation: 'atomic', keys: [], items: deducedType },
  map: { atomic: true, fields: new Map(), values: deducedType, standing: [] },
};

/** A field of a type without Go struct: it exists if the object contains it. */
export const plainField = (name: string, type: FieldType, keyDefault?: unknown): Field => ({
  name,
  element: `f:${name}`,
  type,
  standing: undefined,
  omitsZero: false,
  keyDefault,
});
