import { CelError } from '../../values/cel-error.ts';
import { fn, traversal, type Library } from '../library.ts';
import { Opaque, type Value } from '../../values/value.ts';

const typeName = 'kubernetes.URL';
// the parts of RFC 3986; they are validated below
const shape = /^(?:([a-zA-Z][a-zA-Z0-9+.-]*):)?(?:\/\/([^/?#]*))?([^?#]*)(?:\?([^#]*))?$/;

interface Parts {
  readonly scheme: string;
  /** The host with the port, without the user. */
  readonly host: string;
  readonly path: string;
  readonly query: string;
  readonly text: string;
}

class UrlValue extends Opaque {
  readonly typeName = typeName;
  readonly parts: Parts;
  constructor(parts: Parts) {
    super();
    this.parts = parts;
  }
  override equals(other: Opaque): boolean {
    return other instanceof UrlValue && other.parts.text === this.parts.text;
  }
}

/** Parses an absolute URI or an absolute path as Go's url.ParseRequestURI does; returns undefined if the text is neither. */
function parse(text: string): Parts | undefined {
  if (text === '' || text.includes('#') || /[\0- \x7f]/.test(text)) return undefined;
  const match = shape.exec(text);
  if (match === null) return undefined;
  const [, scheme = '', authority, path = '', query = ''] = match;
  if (scheme === '' && !text.startsWith('/')) return undefined;
  if (scheme !== '' && authority === undefined && !path.startsWith('/'))
    return { scheme: scheme.toLowerCase(), host: '', path: '', query, text };
  const host = (authority ?? '').slice((authority ?? '').lastIndexOf('@') + 1);
  if (!/^(\[[0-9a-fA-F:.%A-Za-z0-9_~-]*\]|[^\s"<>\\^`{|}:[\]]*)(:\d*)?$/.test(host)) return undefined;
  if (/%(?![0-9a-fA-F]{2})/.test(path) || /%(?![0-9a-fA-F]{2})/.test(host)) return undefined;
  return { scheme: scheme.toLowerCase(), host, path, query, text };
}

const port = ({ host }: Parts) => /:(\d*)$/.exec(host.replace(/^\[[^\]]*\]/, ''))?.[1] ?? '';
const hostname = ({ host }: Parts) => (host.startsWith('[') ? host.slice(1, host.indexOf(']')) : host.replace(/:\d*$/, ''));
const decode = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
};
function queryOf({ query }: Parts): Value {
  const found: Record<string, string[]> = {};
  for (const pair of query.split('&')) {
    if (pair === '' || pair.includes(';')) continue;
    const equals = pair.indexOf('=');
    const key = decode(equals < 0 ? pair : pair.slice(0, equals));
    const value = decode(equals < 0 ? '' : pair.slice(equals + 1));
    if (key === undefined || value === undefined || key === '__proto__') continue;
    if (Object.hasOwn(found, key)) found[key]?.push(value);
    else found[key] = [value];
  }
  return found;
}
/** Escapes the characters that a URL path cannot contain; existing escapes remain. */
const escapedPath = ({ path }: Parts) => path.replace(/[^A-Za-z0-9$&+,/:;=@\-_.~!*'()%]/gu, (char) => encodeURIComponent(char));

const get = (name: string, of: (parts: Parts) => Value, result = 'string') =>
  fn(`(${typeName}).${name}(): ${result}`, ({ parts }: UrlValue) => of(parts));
const parsing = { cost: (size: number) => Math.max(1, traversal(size)) };

export const urls: Library = {
  name: 'url',
  functions: [
    fn(
      `url(string): ${typeName}`,
      (text: string) => {
        const parts = parse(text);
        if (parts === undefined)
          throw new CelError(
            'invalid-argument',
            `URL parse error during conversion from string: parse ${JSON.stringify(text)}: invalid URI for request`,
          );
        return new UrlValue(parts);
      },
      parsing,
    ),
    fn('isURL(string): bool', (text: string) => parse(text) !== undefined, parsing),
    get('getScheme', ({ scheme }) => scheme),
    get('getHost', ({ host }) => host),
    get('getHostname', hostname),
    get('getPort', port),
    get('getEscapedPath', escapedPath),
    get('getQuery', queryOf, 'map<string, list<string>>'),
  ],
};
