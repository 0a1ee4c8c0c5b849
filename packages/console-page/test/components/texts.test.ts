import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { duration, parseDuration } from '../../src/components/age.ts';
import { diffLines, withContext } from '../../src/components/diff-lines.ts';
import { formatBytes, quantity } from '../../src/components/quantity.ts';
import { visibleRows } from '../../src/components/virtual-rows.ts';
import { documentsOf, editableOf, fromYaml, toYaml } from '../../src/components/yaml-text.ts';

const signs = { same: ' ', added: '+', removed: '-' };
const diffText = (before: string, after: string) => diffLines(before, after).map(({ kind, text }) => `${signs[kind]}${text}`);

describe('a difference', () => {
  it('contains the changed lines only', () => {
    expect(diffText('a\nb\nc', 'a\nx\nc')).toEqual([' a', '-b', '+x', ' c']);
    expect(diffText('', 'a')).toEqual(['-', '+a']);
    expect(diffText('a\nb', 'b')).toEqual(['-a', ' b']);
  });
  it('leads from one text to the other', () => {
    const text = fc.array(fc.constantFrom('a', 'b', 'c', ''), { minLength: 1, maxLength: 12 }).map((lines) => lines.join('\n'));
    fc.assert(
      fc.property(text, text, (before, after) => {
        const lines = diffLines(before, after);
        const side = (kind: 'added' | 'removed') =>
          lines
            .filter((line) => line.kind === 'same' || line.kind === kind)
            .map((line) => line.text)
            .join('\n');
        expect(side('removed')).toBe(before);
        expect(side('added')).toBe(after);
      }),
    );
  });
  it('of very different texts ends quickly', () => {
    const lines = (sign: string) => Array.from({ length: 20_000 }, (_, index) => `${sign}${index}`).join('\n');
    expect(diffLines(lines('a'), lines('b'))).toHaveLength(40_000);
  });
  it('is shown with three unchanged lines around each change', () => {
    const lines = Array.from({ length: 20 }, (_, index) => String(index));
    const changed = lines.with(10, 'x');
    expect(withContext(diffLines(lines.join('\n'), changed.join('\n'))).map((line) => line?.text)).toEqual([
      ...['7', '8', '9', '10', 'x', '11', '12', '13'],
    ]);
  });
});

describe('YAML', () => {
  const metadata = { name: 'a', uid: 'u', resourceVersion: '5', managedFields: [{ manager: 'm' }] };
  it('of an object has the usual order, without the version and managed fields', () => {
    expect(toYaml(editableOf({ status: {}, data: { b: '1' }, metadata, kind: 'ConfigMap', apiVersion: 'v1' }))).toBe(
      'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  uid: u\ndata:\n  b: "1"\nstatus: {}\n',
    );
  });
  it('of several documents and of a List is split into objects', () => {
    expect(
      documentsOf('# only a comment\n---\nkind: A\n---\n---\nkind: List\nitems: [{ kind: B }, { kind: C }]\n').map(({ kind }) => kind),
    ).toEqual(['A', 'B', 'C']);
  });
  it('with a fault is rejected with its position', () => {
    expect(() => fromYaml('a: [1')).toThrow(/line 1/);
    expect(() => documentsOf('a: 1\n---\nb: "')).toThrow(/line 3/);
    expect(() => documentsOf('just text')).toThrow('a document must be an object');
  });
  it('with aliases that multiply is rejected', () => {
    const levels = Array.from({ length: 9 }, (_, index) => `l${index + 1}: &l${index + 1} [${`*l${index},`.repeat(9)}]`);
    expect(() => fromYaml(`l0: &l0 [x]\n${levels.join('\n')}`)).toThrow(/alias/i);
  });
});

describe('a number', () => {
  it.each([
    ['250m', 0.25],
    ['2', 2],
    ['1Ki', 1024],
    ['1.5Gi', 1.5 * 2 ** 30],
    ['1e3', 1000],
    ['500000n', 0.0005],
    ['', 0],
    ['x', 0],
  ])('is parsed from the quantity %j', (text, value) => {
    expect(quantity(text)).toBeCloseTo(value, 9);
  });
  it('of bytes has a binary unit', () => {
    expect([0, 1023, 1024, 1.5 * 2 ** 30].map(formatBytes)).toEqual(['0', '1020', '1Ki', '1.5Gi']);
  });
});

describe('an age', () => {
  it.each([
    [-5, '0s'],
    [119_000, '119s'],
    [120_000, '2m'],
    [200_000, '3m20s'],
    [3 * 3_600_000, '3h'],
    [47 * 3_600_000, '47h'],
    [51 * 3_600_000, '2d3h'],
    [3 * 86_400_000, '3d'],
    [9.9 * 86_400_000, '9d'],
    [730 * 86_400_000, '2y'],
    [800 * 86_400_000, '2y70d'],
    [3_000 * 86_400_000, '8y'],
    [Number.NaN, '<unknown>'],
  ])('of %d ms is %s', (ms, text) => {
    expect(duration(ms)).toBe(text);
  });

  it.each([
    ['45s', 45],
    ['3m20s', 200],
    ['2d3h', 51 * 3_600],
    ['2y70d', 800 * 86_400],
    ['<unknown>', undefined],
    ['3 minutes', undefined],
    ['5x', undefined],
    ['', undefined],
  ])('that a server printed as %j is %d seconds', (printed, seconds) => {
    expect(parseDuration(printed)).toBe(seconds === undefined ? undefined : seconds * 1000);
  });
});

describe('a table of 30,000 rows', () => {
  it.each([0, 17, 500_000, 30_000 * 34, 1e9])('renders the rows of the viewport only, at %d pixels', (scrollTop) => {
    const { from, to, before, after } = visibleRows({ scrollTop, height: 800 }, 30_000, 34);
    expect(to - from).toBeLessThanOrEqual(800 / 34 + 22);
    expect(before + (to - from) * 34 + after).toBe(30_000 * 34);
  });
});
