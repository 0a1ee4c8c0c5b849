/** Writes an archive of a packed command with Node into `out`, and returns its path. */
export function standalone(command: string, out: string, options?: { readonly compression?: number }): Promise<string>;
/** Writes one executable file with Node and a packed command into `out`, and returns its path. */
export function singleFile(command: string, out: string): Promise<string>;
