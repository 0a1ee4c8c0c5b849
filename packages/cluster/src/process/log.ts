import type { Logger } from '@oarlock/primitives/logger';
import { redactLogFields, redactLogText } from '@oarlock/primitives/redact-secrets';
import type { Health } from '@oarlock/spi/role';
import { pino, destination } from 'pino';

export interface OpenLog {
  readonly log: Logger;
  /** Returns whether the last write to the file succeeded. */
  check(): Health;
  /** Writes what was logged before and closes the file. Lines that cannot be written are lost. */
  close(): Promise<void>;
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
      formatters: { log: redactLogFields },
      hooks: {
        logMethod([fields, message], method) {
          method.apply(this, [fields, redactLogText(message ?? '')]);
        },
      },
    },
    out,
  );
  return {
    log: logger,
    check: () => (failure === undefined ? { healthy: true } : { healthy: false, reason: `the log cannot be written: ${failure}` }),
    // not flushSync, which repeats a write without end while the disk is full
    close: () =>
      new Promise((resolve) => {
        out.once('close', resolve);
        out.once('error', () => {
          out.destroy();
          resolve();
        });
        if (failure === undefined) out.end();
        else out.destroy();
      }),
  };
}

const maxCauseDepth = 5;

/**
 * Serializes an error with its causes. Replaces Pino's serializer, which assigns properties to nested objects and therefore throws for frozen
 * objects such as the Status of an API error.
 */
function describe(error: unknown): unknown {
  if (!(error instanceof Error)) return error; // the fields were redacted before
  const messages: string[] = [];
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < maxCauseDepth; at = at.cause, depth += 1)
    messages.push(at.message);
  return { type: error.name, message: redactLogText(messages.join(': ')), stack: redactLogText(error.stack ?? '') };
}
