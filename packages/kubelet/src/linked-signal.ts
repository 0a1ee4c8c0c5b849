/** A signal of its own that also aborts when one of others does. `AbortSignal.any` would leave something behind in those that live long. */
export class LinkedSignal {
  readonly #own = new AbortController();
  readonly #parents: readonly AbortSignal[];
  readonly #follow: () => void;

  constructor(...parents: readonly AbortSignal[]) {
    this.#parents = parents;
    this.#follow = () => {
      this.abort(parents.find(({ aborted }) => aborted)?.reason);
    };
    for (const parent of parents) {
      if (parent.aborted) this.abort(parent.reason);
      else parent.addEventListener('abort', this.#follow, { once: true });
    }
  }

  get signal(): AbortSignal {
    return this.#own.signal;
  }
  abort(reason?: unknown): void {
    this.#own.abort(reason);
  }

  /** Lets go of the others. Whoever makes one calls this in the end. */
  release(): void {
    for (const parent of this.#parents) parent.removeEventListener('abort', this.#follow);
  }
}
