import type { Logger } from '@oarlock/kernel/logger';
import { pino, destination } from 'pino';

/** JSON lines in `file` (0600). What a person has to see is printed by the command line, not logged. */
export function openLog(file: string, level: 'debug' | 'info' | 'warn' | 'error' | 'silent'): { readonly log: Logger; close(): void } {
  const out = destination({ dest: file, mode: 0o600, sync: false, minLength: 0 });
  const logger = pino(
    {
      level,
      base: null,
      serializers: { err: describe },
      redact: {
        paths: ['token', '*.token', 'authorization', '*.authorization', 'key', '*.key', 'password', '*.password'],
        censor: '[redacted]',
      },
    },
    out,
  );
  return {
    log: logger,
    close: () => {
      out.flushSync();
      out.end();
    },
  };
}

const deepestCause = 5;

/**
 * An error as it is logged, with what it came from. Pino's own way writes into whatever an error holds, which fails on what is frozen, such as the
 * Status of a refusal: then whoever logs would fail.
 */
function describe(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const messages: string[] = [];
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < deepestCause; at = at.cause, depth += 1)
    messages.push(at.message);
  return { type: error.name, message: messages.join(': '), stack: error.stack };
}
