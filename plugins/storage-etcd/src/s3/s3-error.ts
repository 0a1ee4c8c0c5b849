export type S3ErrorCode = 'NotFound' | 'Denied' | 'Rejected' | 'Unavailable';

/** An error of an S3-compatible store. The message has no credentials: of a response, only its code and message are kept. */
export class S3Error extends Error {
  override readonly name = 'S3Error';
  readonly code: S3ErrorCode;

  constructor(code: S3ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

const maxTextLength = 300;

/** Returns the error for a response that is not a success. */
export function responseError(what: string, status: number, body: string): S3Error {
  const [code, message] = [elementOf(body, 'Code'), elementOf(body, 'Message')];
  const text = `${what}: HTTP ${status}${code === undefined ? '' : ` ${code}`}${message === undefined ? '' : `: ${message}`}`;
  return new S3Error(codeOf(status), text.slice(0, maxTextLength));
}

function codeOf(status: number): S3ErrorCode {
  if (status === 404) return 'NotFound';
  if (status === 401 || status === 403) return 'Denied';
  return status >= 500 || status === 429 ? 'Unavailable' : 'Rejected';
}

const entities: Readonly<Record<string, string>> = { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&apos;': "'" };

/** Returns the text of the first element of a name; undefined if there is none. The responses of S3 have no attributes that matter, and no CDATA. */
export function elementOf(xml: string, name: string): string | undefined {
  const [, text] = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml) ?? [];
  return text?.replace(/&(?:#\d{1,7}|#x[\da-f]{1,6}|\w{2,4});/gi, characterOf);
}

function characterOf(reference: string): string {
  const [, hexadecimal, digits = ''] = /^&#(x?)([\da-f]+);$/i.exec(reference) ?? [];
  const code = hexadecimal === undefined ? undefined : Number.parseInt(digits, hexadecimal === '' ? 10 : 16);
  if (code === undefined) return entities[reference] ?? reference;
  return code <= 0x10ffff ? String.fromCodePoint(code) : reference;
}

/** Returns the contents of all elements of a name, which contain no element of the same name. */
export const elementsOf = (xml: string, name: string): readonly string[] =>
  xml
    .split(`<${name}>`)
    .slice(1)
    .map((part) => part.split(`</${name}>`)[0] ?? '');
