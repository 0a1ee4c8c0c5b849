const unusual = /[\ud800-\udfff]/;
const loneSurrogate = /\p{Surrogate}/u;

/** Checks that the text is valid Unicode. @throws TypeError for an unpaired surrogate, which has no UTF-8 encoding: two keys would become one */
export function checkText(text: string): void {
  if (unusual.test(text) && loneSurrogate.test(text)) throw new TypeError(`not Unicode: ${JSON.stringify(text)}`);
}

export interface ByteRange {
  readonly key: Buffer;
  readonly range_end: Buffer;
}

/** Maps keys to etcd keys below a root. */
export class KeySpace {
  readonly #root: string;
  readonly #rootBytes: number;
  /** All etcd keys below the root, including the marker. */
  readonly all: ByteRange;
  /** A key below the root that sorts after every other key, because 0xff is not valid UTF-8. It is written to advance the revision, and never read. */
  readonly marker: Buffer;

  /** @param prefix the root without a trailing slash, for example `/oarlock` */
  constructor(prefix: string) {
    this.#root = `${prefix}/`;
    const root = Buffer.from(this.#root);
    this.#rootBytes = root.length;
    this.all = { key: root, range_end: behind(root) };
    this.marker = Buffer.concat([root, Buffer.from([0xff]), Buffer.from('progress')]);
  }

  encode(key: string): Buffer {
    checkText(key);
    return Buffer.from(this.#root + key);
  }

  decode(key: Uint8Array): string {
    return Buffer.from(key.buffer, key.byteOffset + this.#rootBytes, key.length - this.#rootBytes).toString();
  }

  isMarker(key: Uint8Array): boolean {
    return key[this.#rootBytes] === 0xff;
  }

  /** Returns the range of keys that start with `prefix` and sort after `after`; undefined if it is empty. */
  range(prefix: string, after: string | undefined): ByteRange | undefined {
    const first = this.encode(prefix);
    const range_end = prefix === '' ? Buffer.concat([first, Buffer.from([0xff])]) : behind(first);
    const next = after === undefined ? first : Buffer.concat([this.encode(after), Buffer.from([0])]);
    const key = Buffer.compare(next, first) > 0 ? next : first;
    return Buffer.compare(key, range_end) < 0 ? { key, range_end } : undefined;
  }
}

/** Returns the first key after all keys with these bytes as prefix. The last byte is never 0xff, because it is UTF-8. */
function behind(bytes: Buffer): Buffer {
  const end = Buffer.from(bytes);
  end[end.length - 1] = (end[end.length - 1] ?? 0) + 1;
  return end;
}
