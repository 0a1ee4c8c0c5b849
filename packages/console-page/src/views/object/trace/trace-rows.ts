import { criticalPath, criticalSpans, type TreeNode, type WaitTime } from '@oarlock/tracing/trace-tree';

type Span = TreeNode['span'];

/** A line of a trace: a span, its depth below the root, and the times that its bar shows, in milliseconds since the start of the root. */
export interface TraceRow {
  readonly span: Span;
  readonly depth: number;
  readonly startMs: number;
  readonly durationMs: number;
  /** The time between the end of the parent and the start of this span. */
  readonly wait: WaitTime | undefined;
  readonly isCritical: boolean;
  /** The write of which the span is a part; undefined outside of writes. */
  readonly write: Span | undefined;
}

export interface TraceStep {
  readonly what: string;
  readonly ms: number;
}

export interface Trace {
  readonly root: Span;
  readonly rows: readonly TraceRow[];
  /** From the start of the root to the end of the last span, in milliseconds. */
  readonly totalMs: number;
  readonly criticalSteps: readonly TraceStep[];
  /** The number of spans that are not in `rows`, because a trace may have thousands. */
  readonly omitted: number;
}

const isWrite = ({ attributes }: Span): boolean =>
  attributes['oarlock.object'] !== undefined && attributes['oarlock.revision'] !== undefined;

const maxRows = 2000;
const shownStepMs = 0.05;

/** Flattens a tree to its lines, depth first, with the times relative to the root. */
export function traceOf(tree: TreeNode): Trace {
  const critical = new Set(criticalSpans(tree).map(({ span }) => span.spanId));
  const zero = tree.span.start;
  const rows: TraceRow[] = [];
  let end = tree.span.end;
  let count = 0;
  const add = ({ span, wait, children }: TreeNode, depth: number, outer: Span | undefined): void => {
    const write = isWrite(span) ? span : outer;
    count += 1;
    end = Math.max(end, span.end);
    if (rows.length < maxRows)
      rows.push({
        span,
        depth,
        startMs: span.start - zero,
        durationMs: span.end - span.start,
        wait,
        isCritical: critical.has(span.spanId),
        write,
      });
    for (const child of children) add(child, depth + 1, write);
  };
  add(tree, 0, undefined);
  return {
    root: tree.span,
    rows,
    totalMs: end - zero,
    criticalSteps: criticalPath(tree).filter(({ ms }) => ms >= shownStepMs),
    omitted: count - rows.length,
  };
}

/** Attributes whose meaning is clear without their name. */
const plainAttributes = new Set(['oarlock.object', 'oarlock.key']);
/** Attributes that the times of the row show already, or that only programs use. */
const hiddenAttributes = new Set([
  'oarlock.enqueued_at',
  'oarlock.sender',
  'oarlock.verb',
  'oarlock.added',
  'oarlock.changed',
  'oarlock.removed',
  'oarlock.before',
]);

/** Returns the attributes of a span as text. */
export const attributesOf = ({ attributes }: Span): string =>
  Object.entries(attributes)
    .filter(([name]) => !hiddenAttributes.has(name))
    .map(([name, value]) => (plainAttributes.has(name) ? String(value) : `${name.slice(name.lastIndexOf('.') + 1)}=${String(value)}`))
    .join(' ');

/** Formats milliseconds with three digits or fewer after the first. */
export const formatMs = (ms: number): string =>
  ms >= 10_000
    ? `${(ms / 1000).toFixed(1)} s`
    : ms >= 1000
      ? `${(ms / 1000).toFixed(2)} s`
      : ms >= 10
        ? `${ms.toFixed(0)} ms`
        : `${ms.toFixed(2)} ms`;

/** The levels that are indented. Deeper ones are a chain of causes: indented further, they would move the timeline and the details out of the view. */
const maxIndent = 12;

/** Returns the indent of a level in no-break spaces: the content security policy of the page allows no inline styles. */
export const indentOf = (depth: number): string => '\u00A0\u00A0'.repeat(Math.min(depth, maxIndent));
