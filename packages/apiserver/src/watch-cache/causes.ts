import type { Cause } from '@oarlock/kernel/tracing';

/**
 * What caused each of the newest revisions, where it is known. Bounded; forgets the oldest: by a ring, for to look up what is first in a Map from
 * which much was deleted means to go over all that was.
 */
export class Causes {
  readonly #most: number;
  readonly #byRevision = new Map<number, Cause>();
  readonly #ring: number[] = [];
  #next = 0;

  constructor(most = 20_000) {
    this.#most = most;
  }

  set(revision: number, cause: Cause | undefined): void {
    if (cause === undefined) return;
    if (this.#byRevision.has(revision)) return; // one commit of several objects
    const oldest = this.#ring[this.#next];
    if (oldest !== undefined) this.#byRevision.delete(oldest);
    this.#byRevision.set(revision, cause);
    this.#ring[this.#next] = revision;
    this.#next = (this.#next + 1) % this.#most;
  }

  get(revision: number): Cause | undefined {
    return this.#byRevision.get(revision);
  }
}
