/** One challenge of a WWW-Authenticate header (RFC 9110, section 11.6.1). Scheme and names of parameters are in lower case. */
export interface Challenge {
  readonly scheme: string;
  readonly parameters: Readonly<Record<string, string>>;
}

const maxHeader = 16 * 1024;

/** Parses the challenges of a header. Malformed parts are ignored. */
export function parseChallenges(header: string): readonly Challenge[] {
  const challenges: { scheme: string; parameters: Record<string, string> }[] = [];
  const token = /\s*,?\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*)))?/y;
  const text = header.slice(0, maxHeader);
  for (let match = token.exec(text); match; match = token.exec(text)) {
    const [, name = '', quoted, plain] = match;
    if (quoted === undefined && plain === undefined) challenges.push({ scheme: name.toLowerCase(), parameters: {} });
    else {
      const current = challenges.at(-1);
      if (current) current.parameters[name.toLowerCase()] = quoted?.replace(/\\(.)/g, '$1') ?? plain ?? '';
    }
  }
  return challenges;
}
