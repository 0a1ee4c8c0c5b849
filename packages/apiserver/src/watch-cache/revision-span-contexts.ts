import type { SpanContext } from '@oarlock/kernel/tracing';

/** The number of revisions whose span context is kept. A span context has a fixed size. */
const defaultMaxRevisions = 20_000;

/**
 * The span contexts of the newest revisions that this process wrote. A ring of revisions determines which to evict, because finding the first key of
 * a Map from which many keys were deleted takes linear time.
 */
export class RevisionSpanContexts {
  readonly #maxRevisions: number;
  readonly #byRevision = new Map<number, SpanContext>();
  readonly #ring: number[] = [];
  #next = 0;

  constructor(maxRevisions = defaultMaxRevisions) {
    this.#maxRevisions = maxRevisions;
  }

  set(revision: number, spanContext: SpanContext | undefined): void {
    if (spanContext === undefined) return;
    if (this.#byRevision.has(revision)) return; // a commit of several objects
    const oldest = this.#ring[this.#next];
    if (oldest !== undefined) this.#byRevision.delete(oldest);
    this.#byRevision.set(revision, spanContext);
    this.#ring[this.#next] = revision;
    this.#next = (this.#next + 1) % this.#maxRevisions;
  }

  get(revision: number): SpanContext | undefined {
    return this.#byRevision.get(revision);
  }
}
