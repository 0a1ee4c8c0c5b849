import type { ByteSink } from '../../request/response.ts';

/** A sink that keeps the bytes, for encodings that convert them. */
export class CollectedBytes implements ByteSink {
  readonly #parts: Uint8Array[] = [];

  /** The bytes as UTF-8. */
  get text(): string {
    return Buffer.concat(this.#parts).toString('utf8');
  }

  add(bytes: Uint8Array, start = 0): void {
    this.#parts.push(bytes.slice(start));
  }

  addDecimal(value: number): void {
    this.#parts.push(Buffer.from(String(value)));
  }
}
