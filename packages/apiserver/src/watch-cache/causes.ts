import type { Cause } from '@oarlock/kernel/tracing';

/** What caused each of the newest revisions, where it is known. Bounded; forgets the oldest. */
export class Causes {
  readonly #most: number;
  readonly #byRevision = new Map<number, Cause>();
  constructor(most = 20_000) {
    this.#most = most;
  }

  set(revision: number, cause: Cause | undefined): void {
    if (cause === undefined) return;
    this.#byRevision.set(revision, cause);
    if (this.#byRevision.size <= this.#most) return;
    for (const oldest of this.#byRevision.keys()) {
      this.#byRevision.delete(oldest);
      break;
    }
  }

  get(revision: number): Cause | undefined {
    return this.#byRevision.get(revision);
  }
}
