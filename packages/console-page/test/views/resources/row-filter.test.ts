import { describe, expect, it } from 'vitest';
import { SortedRows } from '../../../src/api/sorted-rows.ts';
import type { Row } from '../../../src/api/table-store.ts';
import { filterRows, RowFilter } from '../../../src/views/resources/row-filter.ts';

const row = (index: number, status = index % 3 === 0 ? 'Running' : 'Pending'): Row => ({
  uid: `uid-${index}`,
  name: `web-${index}`,
  namespace: index % 2 === 0 ? 'shop' : 'default',
  createdAt: 0,
  receivedAt: 0,
  isDeleted: false,
  cells: [`web-${index}`, '1/1', status],
});

describe('the filter of a table', () => {
  it('finds the same rows as a search of all rows, while the user types and the table changes', () => {
    const table = new SortedRows<Row>();
    for (let index = 0; index < 300; index += 1) table.set(row(index));
    const filter = new RowFilter();
    const typed = ['', 'w', 'web-1', 'web-12', 'web-1', 'run', 'run shop', 'run -shop', 'run -sho', '-', 'RUN  web-2', ''];
    for (const [step, text] of typed.entries()) {
      for (const isChanged of [false, true, true]) {
        if (isChanged) {
          table.set(row((step * 31) % 320, 'Running'));
          for (const removed of [(step * 17) % 300, (step * 13) % 300]) table.delete(`uid-${removed}`);
        }
        const rows = table.list;
        expect(filter.apply(rows, text, table.lastChange)).toEqual(filterRows(rows, text));
      }
      // two changes of the table between two reads of the filter
      table.set(row(1000 + step));
      expect(table.list).toBeDefined();
      table.set(row(2000 + step));
    }
  });

  it('returns the same array until the rows or the filter change', () => {
    const table = new SortedRows<Row>();
    table.set(row(1));
    const filter = new RowFilter();
    expect(filter.apply(table.list, '')).toBe(table.list);
    const found = filter.apply(table.list, 'web');
    expect(filter.apply(table.list, 'web', table.lastChange)).toBe(found);
  });
});
