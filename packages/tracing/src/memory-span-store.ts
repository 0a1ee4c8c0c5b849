import type { RecordedSpan, SpanStore } from '@oarlock/spi/spans';

/** Keeps the latest `capacity` spans; the oldest goes when a new one comes. */
export class MemorySpanStore implements SpanStore {
  readonly #capacity: number;
  readonly #ring: RecordedSpan[] = [];
  #next = 0;
  readonly #byTrace = new Map<string, Set<RecordedSpan>>();
  readonly #byObject = new Map<string, Set<RecordedSpan>>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  add(spans: readonly RecordedSpan[]): void {
    for (const span of spans) {
      const oldest = this.#ring[this.#next];
      if (oldest !== undefined) {
        drop(this.#byTrace, oldest.traceId, oldest);
        const object = objectOf(oldest);
        if (object !== undefined) drop(this.#byObject, object, oldest);
      }
      this.#ring[this.#next] = span;
      this.#next = (this.#next + 1) % this.#capacity;
      keep(this.#byTrace, span.traceId, span);
      const object = objectOf(span);
      if (object !== undefined) keep(this.#byObject, object, span);
    }
  }

  trace(traceId: string): readonly RecordedSpan[] {
    return [...(this.#byTrace.get(traceId) ?? [])].sort((a, b) => a.start - b.start);
  }

  about(object: string): readonly RecordedSpan[] {
    return [...(this.#byObject.get(object) ?? [])].sort((a, b) => a.start - b.start);
  }

  get size(): number {
    return this.#ring.length;
  }
}

/** Requests name the object; what works on pods by key names only the key. */
function objectOf({ name, attributes }: RecordedSpan): string | undefined {
  const object = attributes['oarlock.object'];
  if (typeof object === 'string') return object;
  const key = attributes['oarlock.key'];
  return typeof key === 'string' && (name === 'sync pod' || name === 'schedule') ? `pods/${key}` : undefined;
}

function keep(index: Map<string, Set<RecordedSpan>>, key: string, span: RecordedSpan): void {
  const found = index.get(key);
  if (found === undefined) index.set(key, new Set([span]));
  else found.add(span);
}

function drop(index: Map<string, Set<RecordedSpan>>, key: string, span: RecordedSpan): void {
  const found = index.get(key);
  found?.delete(span);
  if (found?.size === 0) index.delete(key);
}
