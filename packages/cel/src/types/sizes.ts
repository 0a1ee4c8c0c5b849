/**
 * The minimum and maximum size of a value in static cost estimates: the characters of a string, the elements of a list, the entries of a
 * map.
 */
export interface Sizes {
  readonly min: number;
  readonly max: number;
  /** The size of a list's elements or a map's values. */
  readonly element?: Sizes | undefined;
  /** The size of a map's keys. */
  readonly key?: Sizes | undefined;
  /** Returns the size of a struct's field by its escaped name. */
  readonly field?: ((name: string) => Sizes | undefined) | undefined;
}

/** The maximum size of a request body in bytes, which bounds all values in the body. */
export const maxRequestBytes = 3 * 1024 * 1024;
export const one: Sizes = { min: 1, max: 1 };
export const unknownSizes: Sizes = { min: 0, max: maxRequestBytes };
