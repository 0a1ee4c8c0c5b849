/** A list of chunks from which any number of bytes can be removed without copying. */
export class ChunkList {
  readonly #chunks: readonly Buffer[];
  #next = 0;
  /** Bytes of the first chunk that were removed. */
  #offset = 0;
  #length: number;

  constructor(chunks: readonly Buffer[]) {
    this.#chunks = chunks;
    this.#length = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  }

  /** Number of bytes in the list. */
  get length(): number {
    return this.#length;
  }

  /** Removes and returns the next `length` bytes, or all if there are fewer. */
  take(length: number): readonly Buffer[] {
    const pieces: Buffer[] = [];
    let missing = Math.min(length, this.#length);
    this.#length -= missing;
    while (missing > 0) {
      const chunk = this.#chunks[this.#next] as Buffer;
      const piece = chunk.subarray(this.#offset, this.#offset + missing);
      missing -= piece.length;
      this.#offset += piece.length;
      if (this.#offset === chunk.length) {
        this.#next += 1;
        this.#offset = 0;
      }
      if (piece.length > 0) pieces.push(piece);
    }
    return pieces;
  }
}
