import { slot } from '@oarlock/kernel/slot';

/** A finished span as stored, sent and printed. Times are milliseconds since the epoch, with fractions. */
export interface RecordedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId?: string;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly name: string;
  /** The plugin or role that created the span. `process` names its process. */
  readonly scope: string;
  readonly process: string;
  readonly start: number;
  readonly end: number;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** The error message of a failed span. */
  readonly error?: string;
}

/** The most recent spans of a cluster, in bounded memory. */
export interface SpanStore {
  add(spans: readonly RecordedSpan[]): void;
  trace(traceId: string): readonly RecordedSpan[];
  /** Returns the IDs of the stored traces, the oldest first. */
  traceIds(): readonly string[];
  /** Returns the spans of an object, `<groupResource>/<namespace>/<name>`, oldest first. */
  forObject(object: string): readonly RecordedSpan[];
}

export const Spans = slot.one<SpanStore>('spans/v1');

/**
 * The attribute of spans of admission plugins with the values before their changes, as a JSON object by path. The API server shows it to readers of the object,
 * and exports it to no collector.
 */
export const valuesBeforeAttribute = 'oarlock.before';
