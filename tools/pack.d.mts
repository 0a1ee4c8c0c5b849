/** Writes all packages into folders below `out`, by their published names, and returns the folders. */
export function pack(out: string): Promise<readonly string[]>;
