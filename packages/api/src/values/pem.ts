/** A block of a PEM file. */
export interface PemBlock {
  readonly type: string;
  readonly text: string;
  readonly bytes: Buffer;
}

const block = /-----BEGIN ([A-Z0-9 ]+)-----\r?\n([A-Za-z0-9+/=\s]*?)-----END \1-----/g;

/** Returns the well-formed blocks of a PEM file, which is given in base64. */
export function pemBlocks(data: string | undefined): readonly PemBlock[] {
  const text = Buffer.from(data ?? '', 'base64').toString('latin1');
  return Array.from(text.matchAll(block), ([text, type = '', body = '']) => ({ type, text, bytes: Buffer.from(body, 'base64') }));
}
