import type { Logger } from './logger.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Returns a logger that writes one JSON object per line, with time and level, for programs in containers. Debug messages are not written. */
export function jsonLinesLogger(write: (line: string) => void, bound: Fields = {}): Logger {
  const at =
    (level: string) =>
    (fields: Fields, message: string): void => {
      const plain = Object.entries({ ...bound, ...fields }).map(([key, value]) => [key, value instanceof Error ? value.stack : value]);
      write(`${JSON.stringify({ time: new Date().toISOString(), level, message, ...Object.fromEntries(plain) })}\n`);
    };
  return {
    debug: () => {},
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (more) => jsonLinesLogger(write, { ...bound, ...more }),
  };
}
