import type { Logger } from '@oarlock/kernel/logger';
import { pino, destination } from 'pino';

/** JSON lines in `file` (0600). What a person has to see is printed by the command line, not logged. */
export function openLog(file: string, level: 'debug' | 'info' | 'warn' | 'error' | 'silent'): { readonly log: Logger; close(): void } {
  const out = destination({ dest: file, mode: 0o600, sync: false, minLength: 0 });
  const logger = pino(
    {
      level,
      base: null,
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
