const unusual = /[\ud800-\udfff]/;
const loneSurrogate = /\p{Surrogate}/u;

/** @throws TypeError for half of a surrogate pair: it has no bytes of its own in UTF-8, so two keys would become one */
export function checkText(text: string): void {
  if (unusual.test(text) && loneSurrogate.test(text)) throw new TypeError(`not Unicode: ${JSON.stringify(text)}`);
}

export interface ByteRange {
  readonly key: Buffer;
  readonly range_end: Buffer;
}

/** Where in etcd the keys are: under a root that is theirs alone. */
export class KeySpace {
  readonly #root: string;
  readonly #rootBytes: number;
  /** Everything under the root, the marker too. */
  readonly all: ByteRange;
  /** Under the root, but behind every key, because 0xff is in no text of UTF-8. Written to move the revision on; nobody reads it. */
  readonly marker: Buffer;

  /** `prefix` has no slash at its end: `/oarlock`. */
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

  /** The keys that start with `prefix` and sort after `after`; undefined when there can be none. */
  range(prefix: string, after: string | undefined): ByteRange | undefined {
    const first = this.encode(prefix);
    const range_end = prefix === '' ? Buffer.concat([first, Buffer.from([0xff])]) : behind(first);
    const next = after === undefined ? first : Buffer.concat([this.encode(after), Buffer.from([0])]);
    const key = Buffer.compare(next, first) > 0 ? next : first;
    return Buffer.compare(key, range_end) < 0 ? { key, range_end } : undefined;
  }
}

/** The first bytes behind all that start with these. They end in a byte of UTF-8, so never in 0xff. */
function behind(bytes: Buffer): Buffer {
  const end = Buffer.from(bytes);
  end[end.length - 1] = (end[end.length - 1] ?? 0) + 1;
  return end;
}
