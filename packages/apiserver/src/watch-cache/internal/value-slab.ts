/** Size of a buffer that small values share, in bytes. */
const slabSize = 16_384;
/** Larger values have a buffer of their own: a few of them would keep large shared buffers alive. */
const maxSharedBytes = 1_024;

/**
 * Allocates the stored values of one kind. Node's small buffers share a pool with unrelated buffers, and each keeps the whole pool alive; values
 * of one kind have similar lifetimes, so they share buffers of their own.
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
