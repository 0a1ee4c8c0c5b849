import type { Row } from '../../api/table-store.ts';

/** Returns the rows in which every word of the filter occurs in a cell or in the namespace; `-word` excludes rows. */
export function filterRows(rows: readonly Row[], filter: string): readonly Row[] {
  const words = filter
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '' && word !== '-');
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const content = `${row.namespace}\n${row.cells.join('\n')}`.toLowerCase();
    return words.every((word) => (word.startsWith('-') ? !content.includes(word.slice(1)) : content.includes(word)));
  });
}
