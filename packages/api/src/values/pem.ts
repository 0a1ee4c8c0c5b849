/** A block of a PEM file. */
export interface PemBlock {
  readonly type: string;
  readonly text: string;
  readonly bytes: Buffer;
  readonly hasHeaders: boolean;
}

/** A block begins at the start of a line. A line of a header has a colon, which neither the content nor the beginning of a block has. */
const block = /(?<![^\n])-----BEGIN ([A-Z0-9 ]+)-----\r?\n((?:[^\n:]*:[^\n]*\n)*)([A-Za-z0-9+/=\s]*?)-----END \1-----/g;

/** Returns the well-formed blocks of a PEM file, which is given in base64. */
export function pemBlocks(data: string | undefined): readonly PemBlock[] {
  const text = Buffer.from(data ?? '', 'base64').toString('latin1');
  return Array.from(text.matchAll(block), ([text, type = '', headers = '', body = '']) => ({
    type,
    text,
    bytes: Buffer.from(body, 'base64'),
    hasHeaders: headers !== '',
  }));
}
