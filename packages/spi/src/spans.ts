import { slot } from '@oarlock/kernel/slot';

/** A finished span as it is kept, sent and printed. Times are milliseconds since the epoch with fractions. */
export interface RecordedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId?: string;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly name: string;
  /** The plugin or role it comes from, and the process. */
  readonly scope: string;
  readonly process: string;
  readonly start: number;
  readonly end: number;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** What went wrong; absent when nothing did. */
  readonly error?: string;
}

/** The latest spans of a cluster, in bounded memory. */
export interface SpanStore {
  add(spans: readonly RecordedSpan[]): void;
  trace(traceId: string): readonly RecordedSpan[];
  /** Spans about an object, `<groupResource>/<namespace>/<name>`, oldest first. */
  about(object: string): readonly RecordedSpan[];
}

export const Spans = slot.one<SpanStore>('spans/v1');
