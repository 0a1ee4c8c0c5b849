import type { Logger } from '@oarlock/primitives/logger';

const print = (fields: Record<string, unknown>, message: string) => void process.stderr.write(`${message}: ${JSON.stringify(fields)}\n`);

/** Shows warnings and errors to the user of the command. */
export const stderrLog: Logger = { debug() {}, info() {}, warn: print, error: print, child: () => stderrLog };
