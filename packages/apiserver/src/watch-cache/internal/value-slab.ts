/** The size in bytes of a buffer that small values share. */
const slabSize = 16_384;
/** The size in bytes above which a value has its own buffer, because a few such values would keep large shared buffers in memory. */
const maxSharedBytes = 1_024;

/**
 * Allocates buffers for the stored values of one kind. Small buffers of Node.js share a pool with unrelated buffers, and each keeps the whole pool
 * in memory. The values of one kind have similar lifetimes, so they share buffers of their own.
 */
export class ValueSlab {
  #slab = Buffer.alloc(0);
  #used = 0;

  /** Returns the UTF-8 bytes of a text. */
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
