/**
 * An abort signal of its own that also aborts when one of its parents does. Unlike `AbortSignal.any`, `release` removes all
 * references from long-lived parents.
 */
export class LinkedSignal {
  readonly #own = new AbortController();
  readonly #parents: readonly AbortSignal[];
  readonly #onParentAbort: () => void;

  constructor(...parents: readonly AbortSignal[]) {
    this.#parents = parents;
    this.#onParentAbort = () => {
      this.abort(parents.find(({ aborted }) => aborted)?.reason);
    };
    for (const parent of parents) {
      if (parent.aborted) this.abort(parent.reason);
      else parent.addEventListener('abort', this.#onParentAbort, { once: true });
    }
  }

  get signal(): AbortSignal {
    return this.#own.signal;
  }
  abort(reason?: unknown): void {
    this.#own.abort(reason);
  }

  /** Removes the listeners from the parents. The creator must call it when the signal is no longer needed. */
  release(): void {
    for (const parent of this.#parents) parent.removeEventListener('abort', this.#onParentAbort);
  }
}
