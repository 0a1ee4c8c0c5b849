/** The parts of an image without tag and digest, or of a pattern for images. */
interface ImageLocation {
  readonly host: string;
  readonly port: string;
  readonly path: string;
}

const location = /^(\[[0-9A-Fa-f:.]+\]|[^\s/:?#[\]\\@]+)(?::(\d+))?(\/[^\s?#]*)?$/;

function parseLocation(text: string): ImageLocation | undefined {
  const [, host, port = '', path = ''] = location.exec(text) ?? [];
  return host === undefined ? undefined : { host, port, path };
}

/** Returns true if the text is a pattern for images: a host name with or without globs, then optionally a port and a path. */
export const isImagePattern = (text: string): boolean => parseLocation(text) !== undefined;

/**
 * Returns true if a pattern matches a repository: `*.example.com/team` matches `eu.example.com/team/app`. A glob matches within one label of the
 * host name, the ports are equal, and the path of the pattern is a prefix (URLsMatch upstream).
 */
export function matchesImage(pattern: string, repository: string): boolean {
  const wanted = parseLocation(pattern);
  const image = parseLocation(repository);
  if (wanted === undefined || image === undefined) return false;
  if (wanted.port !== image.port || !image.path.startsWith(wanted.path)) return false;
  const globs = wanted.host.split('.');
  const labels = image.host.split('.');
  return globs.length === labels.length && globs.every((each, index) => matchesGlob(each, labels[index] ?? ''));
}

function matchesGlob(pattern: string, text: string): boolean {
  const [head = '', ...tails] = pattern.split('*');
  if (tails.length === 0) return pattern === text;
  if (!text.startsWith(head)) return false;
  let at = head.length;
  for (const [index, tail] of tails.entries()) {
    if (index === tails.length - 1) return text.length - tail.length >= at && text.endsWith(tail);
    const found = text.indexOf(tail, at);
    if (found < 0) return false;
    at = found + tail.length;
  }
  return true;
}
