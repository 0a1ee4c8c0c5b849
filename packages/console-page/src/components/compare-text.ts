/** Compares code units. `localeCompare` takes many times longer, which is noticeable for thousands of names. */
export const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
