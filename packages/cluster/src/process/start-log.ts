import type { Logger } from '@oarlock/primitives/logger';

/** Returns a logger that also shows warnings and errors to the user: what the start of a storage waits for, such as a quorum. Repetitions are shown once. */
export function startLog(log: Logger, show: (warning: string) => void): Logger {
  let latest = '';
  const showAlso = (level: 'warn' | 'error') => (fields: Record<string, unknown>, message: string) => {
    log[level](fields, message);
    const reason = fields['reason'] ?? fields['error'];
    const text = typeof reason === 'string' ? `${message} (${reason})` : message;
    if (text !== latest) show(text);
    latest = text;
  };
  return {
    debug: (fields, message) => log.debug(fields, message),
    info: (fields, message) => log.info(fields, message),
    warn: showAlso('warn'),
    error: showAlso('error'),
    child: (fields) => startLog(log.child(fields), show),
  };
}
