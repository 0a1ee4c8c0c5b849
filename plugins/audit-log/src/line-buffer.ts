const initialBytes = 64 * 1024;
/** A larger buffer is not kept for the next lines. */
const keptBytes = 1024 * 1024;
/** UTF-8 bytes of a UTF-16 code unit, at most. */
const bytesPerUnit = 3;

/**
 * Lines as bytes outside of the JavaScript heap. Strings that wait for a write would survive garbage collections of the young generation, which
 * then take longer than the serialization of the events.
 */
export class LineBuffer {
  #buffer = Buffer.allocUnsafeSlow(initialBytes);
  #used = 0;
  #lines = 0;

  get lines(): number {
    return this.#lines;
  }
  /** In bytes. */
  get size(): number {
    return this.#used;
  }
  /** The bytes of all lines; valid until `clear`. */
  get bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.#used);
  }

  add(text: string): void {
    const needed = this.#used + text.length * bytesPerUnit + 1;
    if (needed > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2));
      this.#buffer.copy(larger, 0, 0, this.#used);
      this.#buffer = larger;
    }
    this.#used += this.#buffer.write(text, this.#used);
    this.#used = this.#buffer.writeUInt8(0x0a, this.#used);
    this.#lines += 1;
  }

  clear(): void {
    if (this.#buffer.length > keptBytes) this.#buffer = Buffer.allocUnsafeSlow(initialBytes);
    this.#used = 0;
    this.#lines = 0;
  }
}
