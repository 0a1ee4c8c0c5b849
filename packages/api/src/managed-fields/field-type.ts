/** How values merge: the part of a schema that server-side apply looks at. */
export interface FieldType {
  /** Which scalars it takes; none when absent. */
  readonly scalar?: 'string' | 'number' | 'boolean' | 'untyped' | undefined;
  readonly list?: ListType | undefined;
  readonly map?: MapType | undefined;
}

export interface ListType {
  /** An atomic list has one owner; items of a set are known by their value, those of a map by their keys. */
  readonly relation: 'atomic' | 'set' | 'map';
  /** Sorted. */
  readonly keys: readonly string[];
  readonly items: FieldType;
}

export interface MapType {
  readonly atomic: boolean;
  /** The members that are known by name. */
  readonly fields: ReadonlyMap<string, Field>;
  /** The type of all other members; undefined when there may be none. */
  readonly values: FieldType | undefined;
  /** Fields that are there also when the object does not show them. */
  readonly standing: readonly Field[];
}

export interface Field {
  readonly name: string;
  /** `f:` and the name. */
  readonly element: string;
  readonly type: FieldType;
  /** What an object has here that does not show the field: the zero value of a Go field that is always written. Frozen. */
  readonly standing: unknown;
  /** Go does not write its zero value: an object that shows it does not have the field. */
  readonly omitsZero: boolean;
  /** The value of a list key that an item leaves out. */
  readonly keyDefault: unknown;
}

/** Any value: lists are atomic, maps are merged. For what has no schema, such as x-kubernetes-preserve-unknown-fields. */
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

/** A field as objects without Go behind them have it: it is there when it is shown. */
export const plainField = (name: string, type: FieldType, keyDefault?: unknown): Field => ({
  name,
  element: `f:${name}`,
  type,
  standing: undefined,
  omitsZero: false,
  keyDefault,
});
