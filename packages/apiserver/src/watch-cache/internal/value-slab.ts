/** Bytes that values of one kind share. */
const slabSize = 16_384;
/** Larger values have their own: few of them would keep much of others. */
const maxSharedBytes = 1_024;

/**
 * Where the stored values of one kind are. Small buffers of Node share what they are in with whatever else was made then, and keep all of it for as long as one
 * of them lives: values that live alike belong together.
 */
export class ValueSlab {
  #slab = Buffer.alloc(0);
  #used = 0;

  /** The bytes of a text. */
  write(text: string): Buffer {
    const size = Buffer.byteLength(text);
    if (size > maxSharedBytes) {
      const own = Buffer.allocUnsafeSlow(size);
      own.write(text);
      return own;
    }
    if (this.#used + size > this.#slab.length) {
      this.#slab = Buffer.allocUnsafeSlow(slabSize);
      this.#used = 0;
    }
    const value = this.#slab.subarray(this.#used, this.#used + size);
    this.#used += size;
    value.write(text);
    return value;
  }
}
