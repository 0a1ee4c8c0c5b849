import { describe, expect, it } from 'vitest';
import { printerFromColumns } from '../../../src/custom-resources/internal/printer-columns.ts';

const columns = (count: number, jsonPath: string) =>
  Array.from({ length: count }, (_, at) => ({ name: `c${at}`, type: 'string', jsonPath }));
/** Returns the milliseconds of processor time of some work. */
function processorMs(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
function nested(depth: number, text: string): object {
  let object: object = { a: text };
  for (let level = 1; level < depth; level++) object = { a: object };
  return object;
}

describe('the printer of additionalPrinterColumns', () => {
  it('bounds the values that the columns of a row visit together', () => {
    const object = { metadata: { name: 'x' }, spec: Array.from({ length: 50_000 }, () => ({ a: 1 })) };
    const printer = printerFromColumns(columns(2000, '..b'));
    expect(processorMs(() => expect(printer.cells(object, 0)).toHaveLength(2001))).toBeLessThan(1000);
  });

  it('bounds the text of a row whose columns repeat nested values', () => {
    const printer = printerFromColumns(columns(200, '..a'));
    const cells = printer.cells({ metadata: { name: 'x' }, spec: nested(90, 'x'.repeat(1_000_000)) } as object, 0);
    expect(cells.reduce<number>((sum, cell) => sum + (typeof cell === 'string' ? cell.length : 0), 0)).toBeLessThan(6_000_000);
  });

  it('compiles paths when the first row is printed, up to 64 KiB in total', () => {
    const printer = printerFromColumns([...columns(1, '.a'), ...columns(40, '.a'.repeat(1024)), ...columns(1, '.a')]);
    const cells = printer.cells({ metadata: { name: 'x' }, a: 'first' } as object, 0);
    expect(cells[1]).toBe('first');
    expect(cells.at(-1)).toBeNull();
  });
});
