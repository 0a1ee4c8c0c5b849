const initialBytes = 64 * 1024;
/** The maximum size of a buffer that is reused for the next lines. */
const keptBytes = 1024 * 1024;
/** The maximum number of UTF-8 bytes of a UTF-16 code unit. */
const bytesPerUnit = 3;

/**
 * A buffer of lines outside of the JavaScript heap. Strings that wait for a write would survive garbage collections of the young generation,
 * which would then take longer than the serialization of the events.
 */
export class LineBuffer {
  #buffer = Buffer.allocUnsafeSlow(initialBytes);
  #used = 0;
  #lines = 0;

  get lines(): number {
    return this.#lines;
  }
  /** The size of all lines in bytes. */
  get size(): number {
    return this.#used;
  }
  /** The bytes of all lines. They are valid until `clear` is called. */
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
