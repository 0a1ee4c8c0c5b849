/**
 * Paths in archives are bytes without an encoding. They are handled as strings with one character per byte (latin1), and converted at each call of the file
 * system, so that names that are not UTF-8 survive.
 */
export type BytePath = string;

/** Returns the path for a call of `node:fs`. */
export const osPath = (path: BytePath): string | Buffer => {
  for (let index = 0; index < path.length; index += 1) if (path.charCodeAt(index) > 127) return Buffer.from(path, 'latin1');
  return path;
};

/** Converts a path of this process, which is UTF-8. */
export const bytePath = (path: string): BytePath => Buffer.from(path, 'utf8').toString('latin1');

const longestDisplay = 256;
/** Returns the path as text for messages, cut at 256 bytes. */
export const displayPath = (path: BytePath): string =>
  `${Buffer.from(path.slice(0, longestDisplay), 'latin1').toString('utf8')}${path.length > longestDisplay ? '...' : ''}`;
