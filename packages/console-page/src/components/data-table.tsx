import { Component, type ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useLatest } from '../app/hooks.ts';
import { selectedIndex, type RowSelection } from './row-selection.ts';
import { visibleRows } from './virtual-rows.ts';

export interface DataColumn<R> {
  /** The header. Custom resources may define several columns of one name. */
  readonly name: string;
  readonly title?: string;
  cell(row: R): ComponentChildren;
  /** The text of the cell, from which the width of the column results. */
  textOf(row: R): string;
}

export interface DataTableProps<R> {
  readonly label: string;
  readonly columns: readonly DataColumn<R>[];
  readonly rows: readonly R[];
  readonly empty: string;
  keyOf(row: R): string;
  onOpen?(row: R): void;
}

const rowHeight = 34;
const maxColumnWidth = 48;
/** The number of rows from which column widths are computed. */
const sampledRows = 200;

/** The widths of columns in characters, and what they were computed from. */
interface ColumnWidths {
  readonly columns: readonly { readonly name: string }[];
  readonly count: number;
  readonly widths: readonly number[];
}

/**
 * Returns the width of each column. Widths only grow, so that columns do not move while rows change. They are computed from a sample of the rows, when there
 * are other columns or many more rows.
 */
function columnWidths<R>(columns: readonly DataColumn<R>[], rows: readonly R[], last: ColumnWidths): ColumnWidths {
  if (columns === last.columns && rows.length <= 2 * last.count) return last;
  const step = Math.max(1, Math.floor(rows.length / sampledRows));
  const areSame = columns.length === last.columns.length && columns.every(({ name }, index) => name === last.columns[index]?.name);
  const widths = columns.map(({ name, textOf }, index) => {
    let width = Math.max(name.length + 1, areSame ? (last.widths[index] ?? 0) : 0);
    for (let i = 0; i < rows.length; i += step) width = Math.max(width, textOf(rows[i] as R).length);
    return Math.min(width, maxColumnWidth);
  });
  return { columns, count: rows.length, widths };
}

interface DataRowProps<R> {
  readonly row: R;
  readonly index: number;
  readonly columns: readonly DataColumn<R>[];
  readonly isSelected: boolean;
  readonly template: string;
  onSelect(index: number): void;
  onOpen(row: R): void;
}

/** A row, which is rendered again only if something of it changes: a change of the table or a scroll leaves most rows as they are. */
class DataRow<R> extends Component<DataRowProps<R>> {
  override shouldComponentUpdate(next: DataRowProps<R>): boolean {
    const { row, index, columns, isSelected, template } = this.props;
    return row !== next.row || index !== next.index || columns !== next.columns || isSelected !== next.isSelected || template !== next.template;
  }

  override render({ row, index, columns, isSelected, template, onSelect, onOpen }: DataRowProps<R>) {
    return (
      <div
        id={`row-${index}`}
        class={`data-row${isSelected ? ' selected' : ''}`}
        role="row"
        aria-rowindex={index + 2}
        aria-selected={isSelected}
        style={{ gridTemplateColumns: template, height: `${rowHeight}px` }}
        onClick={() => onSelect(index)}
        onDblClick={() => onOpen(row)}
      >
        {columns.map((column, cell) => (
          <div key={cell} role="gridcell" title={column.textOf(row)}>
            {column.cell(row)}
          </div>
        ))}
      </div>
    );
  }
}

/** A table that renders the visible rows only. Arrow keys, Page Up, Page Down, Home and End move the selected row, Enter opens it. */
export function DataTable<R>({ label, columns, rows, empty, keyOf, onOpen }: DataTableProps<R>) {
  const box = useRef<HTMLDivElement>(null);
  const [viewport, setViewport] = useState({ scrollTop: 0, height: 600 });
  const [selection, setSelection] = useState<RowSelection>();
  const selected = selectedIndex(rows, keyOf, selection);
  const widths = useRef<ColumnWidths>({ columns: [], count: 0, widths: [] });
  const open = useLatest((row: R) => onOpen?.(row));
  widths.current = columnWidths(columns, rows, widths.current);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const measure = () => setViewport({ scrollTop: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener('scroll', measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', measure);
    };
  }, []);

  const choose = useLatest((index: number) => {
    const row = rows[index];
    if (row !== undefined) setSelection({ key: keyOf(row), index });
  });
  const select = (index: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, index));
    choose(next);
    const element = box.current;
    if (element === null) return;
    const top = next * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + 2 * rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + 2 * rowHeight - element.clientHeight;
  };
  // where a row that is gone was, there is the one after it
  const isGone = selected < 0 && selection !== undefined;
  const from = isGone ? selection.index : selected;
  const page = Math.max(1, Math.floor(viewport.height / rowHeight) - 2);
  const moves: Readonly<Record<string, number>> = {
    ArrowDown: isGone ? from : from + 1,
    ArrowUp: from - 1,
    PageDown: from + page,
    PageUp: from - page,
    Home: 0,
    End: rows.length - 1,
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const target = moves[event.key];
    const row = rows[selected];
    if (target !== undefined) select(target);
    else if (event.key === 'Enter' && event.target === box.current && row !== undefined) onOpen?.(row);
    else return;
    event.preventDefault();
  };

  const { from: first, to: end, before, after } = visibleRows(viewport, rows.length, rowHeight);
  const template = widths.current.widths.map((width) => `minmax(${width + 3}ch, ${width + 3}fr)`).join(' ');
  const line = { gridTemplateColumns: template, height: `${rowHeight}px` };
  const isSelectedVisible = selected >= first && selected < end;
  return (
    <div
      ref={box}
      class="data-table"
      role="grid"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length}
      tabIndex={0}
      onKeyDown={onKeyDown}
      {...(isSelectedVisible && { 'aria-activedescendant': `row-${selected}` })}
    >
      <div class="data-rows" role="rowgroup">
        {columns.length > 0 && (
          <div class="data-row data-head" role="row" aria-rowindex={1} style={line}>
            {columns.map(({ name, title }, cell) => (
              <div key={cell} role="columnheader" title={title}>
                {name}
              </div>
            ))}
          </div>
        )}
        <div style={{ height: `${before}px` }} aria-hidden="true" />
        {rows.slice(first, end).map((row, offset) => {
          const index = first + offset;
          return (
            <DataRow
              key={keyOf(row)}
              row={row}
              index={index}
              columns={columns}
              isSelected={index === selected}
              template={template}
              onSelect={choose}
              onOpen={open}
            />
          );
        })}
        <div style={{ height: `${after}px` }} aria-hidden="true" />
      </div>
      {rows.length === 0 && <p class="empty">{empty}</p>}
    </div>
  );
}
