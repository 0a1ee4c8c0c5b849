import { expect, it } from 'vitest';
import { sizeFaults } from './package-sizes.mjs';

const text = '| package | `npm pack`, KiB | unpacked, KiB | files |\n|---|---|---|---|\n| `a` | 10 | 40 | 3 |\n| `b` | 100 | 900 | 30 |\n';
const size = (name, unpacked) => ({ name, unpacked, files: 1 });

it('accepts sizes that differ by a third, or by 32 KiB', () => {
  expect(sizeFaults([size('a', 72), size('b', 1200)], text)).toEqual([]);
  expect(sizeFaults([size('a', 8), size('b', 600)], text)).toEqual([]);
});

it('lists other sizes, and packages that the page or the packages lack', () => {
  expect(sizeFaults([size('a', 73), size('c', 1)], text)).toEqual([
    'b is not published',
    'a has 73 KiB unpacked instead of 40',
    'c is missing',
  ]);
});
