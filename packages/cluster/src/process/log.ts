import type { Logger } from '@oarlock/primitives/logger';
import type { Health } from '@oarlock/spi/role';
import { pino, destination } from 'pino';

export interface OpenLog {
  readonly log: Logger;
  /** Returns whether the last write to the file succeeded. */
  check(): Health;
  close(): void;
}

/** Opens a log of JSON lines in `file` (mode 0600). The command line prints messages for the user instead of logging them. */
export function openLog(file: string, level: 'debug' | 'info' | 'warn' | 'error' | 'silent'): OpenLog {
  const out = destination({ dest: file, mode: 0o600, sync: false, minLength: 0 });
  let failure: string | undefined;
  // a full disk must not end the process
  out.on('error', (error: Error) => {
    failure = error.message;
  });
  out.on('write', () => {
    failure = undefined;
  });
  const logger = pino(
    {
      level,
      base: null,
      serializers: { err: describe },
      redact: {
        paths: ['token', '*.token', 'authorization', '*.authorization', 'key', '*.key', 'password', '*.password'],
        censor: (value, path) => (path.at(-1) === 'key' && isObjectKey(value) ? value : '[redacted]'),
      },
    },
    out,
  );
  return {
    log: logger,
    check: () => (failure === undefined ? { healthy: true } : { healthy: false, reason: `the log cannot be written: ${failure}` }),
    close: () => {
      if (failure !== undefined) return out.destroy(); // flushSync retries a failed write forever
      out.flushSync();
      out.end();
    },
  };
}

/** Returns true for the key of an object, `namespace/name` or `name`, and false for a cryptographic key in hexadecimal or base64. */
const isObjectKey = (value: unknown): boolean =>
  typeof value === 'string' && value.length <= 317 && /^[a-z0-9.:-]+(?:\/[a-z0-9.:-]+)?$/.test(value) && !/[0-9a-f]{32,}/.test(value);

const maxCauseDepth = 5;

/**
 * Serializes an error with its causes. Replaces Pino's serializer, which assigns properties to nested objects and therefore throws for frozen
 * objects such as the Status of an API error.
 */
function describe(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const messages: string[] = [];
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < maxCauseDepth; at = at.cause, depth += 1)
    messages.push(at.message);
  return { type: error.name, message: messages.join(': '), stack: error.stack };
}
