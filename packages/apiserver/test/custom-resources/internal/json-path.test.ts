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
