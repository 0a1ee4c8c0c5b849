import type { RecordedSpan, SpanStore } from '@oarlock/spi/spans';
import type { EndedSpan } from './recording-tracer.ts';

interface Index {
  readonly byTrace: ReadonlyMap<string, readonly RecordedSpan[]>;
  readonly byObject: ReadonlyMap<string, readonly RecordedSpan[]>;
}

/**
 * A store of the latest `capacity` spans; a new span evicts the oldest. Spans are converted and indexed on read, because writes are much
 * more frequent than reads.
 */
export class MemorySpanStore implements SpanStore {
  readonly #capacity: number;
  readonly #ring: (RecordedSpan | EndedSpan)[] = [];
  #next = 0;
  #index: Index | undefined;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  add(spans: readonly RecordedSpan[]): void {
    for (const span of spans) this.addEnded(span);
  }

  /** Adds an ended span of this process. */
  addEnded(span: RecordedSpan | EndedSpan): void {
    this.#index = undefined;
    this.#ring[this.#next] = span;
    this.#next = (this.#next + 1) % this.#capacity;
  }

  trace(traceId: string): readonly RecordedSpan[] {
    return this.#indexed().byTrace.get(traceId) ?? [];
  }

  traceIds(): readonly string[] {
    return [...this.#indexed().byTrace.keys()];
  }

  forObject(object: string): readonly RecordedSpan[] {
    return this.#indexed().byObject.get(object) ?? [];
  }

  get size(): number {
    return this.#ring.length;
  }

  #indexed(): Index {
    if (this.#index !== undefined) return this.#index;
    const byTrace = new Map<string, RecordedSpan[]>();
    const byObject = new Map<string, RecordedSpan[]>();
    const spans = this.#ring.map((span) => ('toRecordedSpan' in span ? span.toRecordedSpan() : span));
    for (const [at, span] of spans.entries()) this.#ring[at] = span;
    for (const span of [...spans.slice(this.#next), ...spans.slice(0, this.#next)].sort((a, b) => a.start - b.start)) {
      add(byTrace, span.traceId, span);
      const object = objectOf(span);
      if (object !== undefined) add(byObject, object, span);
    }
    this.#index = { byTrace, byObject };
    return this.#index;
  }
}

function add(index: Map<string, RecordedSpan[]>, key: string, span: RecordedSpan): void {
  const found = index.get(key);
  if (found === undefined) index.set(key, [span]);
  else found.push(span);
}

/**
 * Returns the object that a span is about; undefined if there is none. Spans of requests contain the object's name, spans of pod workers
 * and of the scheduler only the object key.
 */
function objectOf({ name, attributes }: RecordedSpan): string | undefined {
  const object = attributes['oarlock.object'];
  if (typeof object === 'string') return object;
  const key = attributes['oarlock.key'];
  return typeof key === 'string' && (name === 'sync pod' || name === 'schedule') ? `pods/${key}` : undefined;
}
