import { expect, it } from 'vitest';
import { selectedIndex } from '../../src/components/row-selection.ts';

const at = (rows: readonly string[], selection?: { readonly key: string; readonly index: number }) =>
  selectedIndex(rows, (row) => row, selection);

it.each([
  ['none', ['a', 'b'], undefined, -1],
  ['the row at its place', ['a', 'b'], { key: 'b', index: 1 }, 1],
  ['a row that moved because another came', ['a', 'aa', 'b'], { key: 'b', index: 1 }, 2],
  ['a row that moved because others left', ['b'], { key: 'b', index: 1 }, 0],
  ['a row that is gone', ['a', 'c'], { key: 'b', index: 1 }, -1],
])('the selected row is %s', (_, rows, selection, index) => {
  expect(at(rows, selection)).toBe(index);
});
