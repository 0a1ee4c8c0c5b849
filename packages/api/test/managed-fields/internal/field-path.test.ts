import { afterEach, expect, it, vi } from 'vitest';
import { sortElements } from '../../../src/managed-fields/internal/field-path.ts';

afterEach(() => vi.restoreAllMocks());

it('sorts members, then items by keys, by value and by index', () => {
  const elements = ['i:10', 'i:9', 'v:"b"', 'v:2', 'v:10', 'k:{"name":"b"}', 'k:{"name":"a","port":2}', 'k:{"name":"a"}', 'f:z', 'f:a'];
  sortElements(elements);
  expect(elements).toEqual([
    'f:a',
    'f:z',
    'k:{"name":"a"}',
    'k:{"name":"a","port":2}',
    'k:{"name":"b"}',
    'v:2',
    'v:10',
    'v:"b"',
    'i:9',
    'i:10',
  ]);
});

it('decodes each item of a long list once', () => {
  const parse = vi.spyOn(JSON, 'parse');
  const elements = Array.from({ length: 10_000 }, (_, n) => `k:{"name":"e${(n * 7919) % 10_000}"}`);
  sortElements(elements);
  expect(parse.mock.calls.length).toBeLessThanOrEqual(10_000);
  expect(elements.slice(0, 3)).toEqual(['k:{"name":"e0"}', 'k:{"name":"e1"}', 'k:{"name":"e10"}']);
});
