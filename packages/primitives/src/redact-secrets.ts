/** Secrets by their form: PEM blocks, JSON web tokens, bootstrap tokens, bearer tokens, passwords of URLs, and long random text. */
const secrets: readonly RegExp[] = [
  /-----BEGIN [A-Z ]+-----[\s\S]*?-----END [A-Z ]+-----/g,
  /\beyJ[\w-]+\.[\w-]+\.[\w-]*/g,
  /\b[a-z0-9]{6}\.[a-z0-9]{16}\b/g,
  /(?<=\bbearer\s+)\S+/gi,
  /(?<=:\/\/)[^/\s@]+(?=@)/g,
  /[A-Za-z0-9+/_-]{40,}={0,2}/g,
];

export const redacted = '<redacted>';

/** Replaces secrets that have a known form, wherever they occur in a text. Paths remain. */
export function redactSecrets(text: string): string {
  let result = text;
  for (const secret of secrets) result = result.replace(secret, (match) => (match.includes('/') && !isKey(match) ? match : redacted));
  return result;
}

/** A path has no segment that is as long as a key, and a key has no file extension. */
const isKey = (text: string) => text.startsWith('-----') || text.split('/').some((segment) => segment.length >= 30);
