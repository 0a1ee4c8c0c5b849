import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileJsonPath } from '../../../src/custom-resources/internal/json-path.ts';

const object = { status: { conditions: [{ type: 'Ready', status: 'True' }], a: { b: [1, 2, 3] } }, metadata: { name: 'x' } };
const part = fc.constantFrom(
  '.status',
  '.conditions',
  '.a',
  '[0]',
  '[-1]',
  '[*]',
  '.*',
  '..',
  '[1:3]',
  '[::-1]',
  '[?(@.type=="Ready")]',
  "['a']",
  '.__proto__',
  '.constructor',
  '.toString',
  '[99999999999]',
  '[',
  ']',
  '(',
  '@',
  '"',
  "'",
  '\\',
  '{',
  '}',
  '$',
);

describe('a JSON path of a column', () => {
  it('never throws, reads no inherited property, and stays within its bound of values', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof({ arbitrary: part, weight: 8 }, fc.string({ maxLength: 4 })), { maxLength: 8 }), (parts) => {
        const found = compileJsonPath(parts.join(''))?.(object) ?? [];
        expect(found.length).toBeLessThanOrEqual(10_000);
        expect(found.filter((value) => typeof value === 'function' || value === Object.prototype)).toEqual([]);
      }),
      { numRuns: 3000 },
    );
  });
});

describe('the bounds of an evaluation', () => {
  const nested = (depth: number) => {
    let object: object = {};
    for (let level = 0; level < depth; level++) object = { a: object };
    return object;
  };
  const wide = { a: Array.from({ length: 50_000 }, () => ({ a: 1 })) };

  it.each(['..a', '..a..a..a..a', '..a[*]..a', '[*]..a', '[?(@..a)]..a', '.a[?(@..a..a==1)]', '.a[*][*][*]'])(
    'hold for %s of deep and wide objects',
    (path) => {
      for (const object of [nested(9000), wide]) expect(compileJsonPath(path)?.(object).length).toBeLessThanOrEqual(10_000);
    },
  );

  it.each([
    ['many steps', `..a${'.a'.repeat(9000)}`],
    ['many names in brackets', `..a${"['a']".repeat(9000)}`],
    ['many steps of a filter', `.a[?(@${'[0:]'.repeat(5000)}==1)]`],
    ['many spaces in a filter', `[?(@.a${' '.repeat(60_000)}x)]`],
  ])('hold for %s', (_, path) => {
    const before = process.cpuUsage();
    for (const object of [nested(9000), wide]) expect(compileJsonPath(path)?.(object) ?? []).toEqual([]);
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1000).toBeLessThan(500);
  });

  it('count for all paths of a row together', () => {
    const shared = { left: 1000 };
    expect(compileJsonPath('.a[*].a')?.(wide, shared).length).toBeLessThan(1000);
    expect(shared.left).toBeLessThanOrEqual(0);
    expect(compileJsonPath('.a')?.(wide, shared)).toEqual([]);
  });

  it('let a descent find the members of a whole object in order', () => {
    const object = { b: { a: 1 }, c: [{ a: 2 }, { d: { a: { a: 3 } } }], a: 4 };
    expect(compileJsonPath('..a')?.(object)).toEqual([4, 1, 2, { a: 3 }, 3]);
    expect(compileJsonPath('..a..a')?.(object)).toEqual([3]);
    expect(compileJsonPath('..a')?.({ x: Array.from({ length: 9000 }, (_, a) => ({ a })) })).toHaveLength(9000);
  });
});
