/** Maximum size of a value, for static estimates: characters of strings, elements of lists, entries of maps. */
export interface Sizes {
  readonly min: number;
  readonly max: number;
  /** Of a list's elements or a map's values. */
  readonly element?: Sizes | undefined;
  /** Of a map's keys. */
  readonly key?: Sizes | undefined;
  /** Of a struct's fields, by escaped name. */
  readonly field?: ((name: string) => Sizes | undefined) | undefined;
}

/** Bytes. The limit of a request body bounds all values in it. */
export const maxRequestBytes = 3 * 1024 * 1024;
export const one: Sizes = { min: 1, max: 1 };
export const unknownSizes: Sizes = { min: 0, max: maxRequestBytes };
