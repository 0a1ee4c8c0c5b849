/** The maximum size of a request body in bytes, which bounds all values in the body. */
export const maxRequestBytes = 3 * 1024 * 1024;

/**
 * The maximum size of the values that a schema declares, from which the static cost of an expression is estimated: the bytes of a string, the
 * elements of a list, the entries of a map. `max` is 0 for values of constant size, and for the keys of a map, as upstream (DeclType.MaxElements).
 */
export interface DeclaredSize {
  readonly max: number;
  /** The size of a list's elements or a map's values. */
  readonly element?: DeclaredSize;
  /** The size of a map's keys. */
  readonly key?: DeclaredSize;
  /** Returns the size of a struct's field by its escaped name; undefined if the struct has no such field. */
  field?(name: string): DeclaredSize | undefined;
}

/** The declared size of values of constant size. */
export const constantSize: DeclaredSize = { max: 0 };
