/** Writes an archive of a packed command with Node into `out`, and returns its path. */
export function standalone(command: string, out: string): Promise<string>;
