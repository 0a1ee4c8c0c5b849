export interface RowRange {
  /** The first row to render. */
  readonly from: number;
  /** The row after the last one to render. */
  readonly to: number;
  /** The height of the rows before and after, in pixels. */
  readonly before: number;
  readonly after: number;
}

/** The number of rows that are rendered beyond each end of the viewport, so that a fast scroll shows no gap. */
const overscan = 10;

/** Returns the rows to render for a scroll position. */
export function visibleRows(
  { scrollTop, height }: { readonly scrollTop: number; readonly height: number },
  count: number,
  rowHeight: number,
): RowRange {
  const first = Math.floor(scrollTop / rowHeight);
  const from = Math.max(0, Math.min(first, count) - overscan);
  const to = Math.min(count, first + Math.ceil(height / rowHeight) + overscan);
  return { from, to: Math.max(from, to), before: from * rowHeight, after: Math.max(0, count - Math.max(from, to)) * rowHeight };
}
