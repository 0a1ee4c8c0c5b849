/** Chunks that are taken from in lengths of somebody else's choosing, without being copied. */
export class ChunkList {
  readonly #chunks: readonly Buffer[];
  #next = 0;
  /** Of the next chunk: what was taken. */
  #offset = 0;
  #length: number;

  constructor(chunks: readonly Buffer[]) {
    this.#chunks = chunks;
    this.#length = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  }

  /** Bytes that are left. */
  get length(): number {
    return this.#length;
  }

  /** The next `length` bytes; fewer when there are no more. */
  take(length: number): readonly Buffer[] {
    const taken: Buffer[] = [];
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
      if (piece.length > 0) taken.push(piece);
    }
    return taken;
  }
}
