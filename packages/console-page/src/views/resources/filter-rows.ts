import type { Row } from '../../api/table-store.ts';

/** The searched text of rows, which never change: each is computed once, not for each change of the table. */
const contents = new WeakMap<Row, string>();

function contentOf(row: Row): string {
  let content = contents.get(row);
  if (content === undefined) {
    content = `${row.namespace}\n${row.cells.join('\n')}`.toLowerCase();
    contents.set(row, content);
  }
  return content;
}

/** Returns the rows in which every word of the filter occurs in a cell or in the namespace; `-word` excludes rows. */
export function filterRows(rows: readonly Row[], filter: string): readonly Row[] {
  const words = filter
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '' && word !== '-');
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const content = contentOf(row);
    return words.every((word) => (word.startsWith('-') ? !content.includes(word.slice(1)) : content.includes(word)));
  });
}
