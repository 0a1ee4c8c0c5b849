import type { SpanContext } from '@oarlock/kernel/tracing';

/**
 * What caused each of the newest revisions, where it is known. Bounded; forgets the oldest: by a ring, for to look up what is first in a Map from
 * which much was deleted means to go over all that was.
 */
export class RevisionSpanContexts {
  readonly #most: number;
  readonly #byRevision = new Map<number, SpanContext>();
  readonly #ring: number[] = [];
  #next = 0;

  constructor(most = 20_000) {
    this.#most = most;
  }

  set(revision: number, spanContext: SpanContext | undefined): void {
    if (spanContext === undefined) return;
    if (this.#byRevision.has(revision)) return; // one commit of several objects
    const oldest = this.#ring[this.#next];
    if (oldest !== undefined) this.#byRevision.delete(oldest);
    this.#byRevision.set(revision, spanContext);
    this.#ring[this.#next] = revision;
    this.#next = (this.#next + 1) % this.#most;
  }

  get(revision: number): SpanContext | undefined {
    return this.#byRevision.get(revision);
  }
}
