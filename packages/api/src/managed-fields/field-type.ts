/** The part of a value's schema that determines how server-side apply merges it. */
export interface FieldType {
  /** The scalar type, or undefined if the value is not a scalar. */
  readonly scalar?: 'string' | 'number' | 'boolean' | 'untyped' | undefined;
  readonly list?: ListType | undefined;
  readonly map?: MapType | undefined;
}

export interface ListType {
  /** The list type: an `atomic` list has one owner, items of a `set` are identified by their value, items of a `map` by their keys. */
  readonly relation: 'atomic' | 'set' | 'map';
  /** The names of the list map keys, sorted. */
  readonly keys: readonly string[];
  readonly items: FieldType;
}

export interface MapType {
  readonly atomic: boolean;
  /** The fields that the schema declares, by name. */
  readonly fields: ReadonlyMap<string, Field>;
  /** The type of all other members; undefined if the schema allows no others. */
  readonly values: FieldType | undefined;
  /** The fields that always exist in Go, even if the JSON object does not contain them. */
  readonly standing: readonly Field[];
}

export interface Field {
  readonly name: string;
  /** The path element of the field: `f:` and the name. */
  readonly element: string;
  readonly type: FieldType;
  /** The value of the field if the JSON object omits it: the zero value of a Go field that is not a pointer. Frozen. Undefined for other fields. */
  readonly standing: unknown;
  /** True if Go omits the zero value, so that an object with the zero value counts as an object without the field. */
  readonly omitsZero: boolean;
  /** The value of a list map key that an item omits. */
  readonly keyDefault: unknown;
}

/** The type of a value without a schema, such as under x-kubernetes-preserve-unknown-fields: lists are atomic, maps are merged. */
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

/** The type of a value of any form that is owned as a whole. */
export const atomicType: FieldType = {
  scalar: 'untyped',
  list: { relation: 'atomic', keys: [], items: deducedType },
  map: { atomic: true, fields: new Map(), values: deducedType, standing: [] },
};

/** Returns a field that exists only if the object contains it, as for types without a Go struct. */
export const plainField = (name: string, type: FieldType, keyDefault?: unknown): Field => ({
  name,
  element: `f:${name}`,
  type,
  standing: undefined,
  omitsZero: false,
  keyDefault,
});
