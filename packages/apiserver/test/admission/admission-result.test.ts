import { expect, it } from 'vitest';
import { changedPaths } from '../../src/admission/admission-result.ts';

it('changedPaths separates added, changed and removed fields, and quotes keys that are no words', () => {
  const before = { spec: { image: 'a', old: 1, items: [{ name: 'x' }, { name: 'y' }] }, metadata: { labels: { 'a/b': '1' } } };
  const after = { spec: { image: 'b', items: [{ name: 'x', value: 2 }] }, metadata: { labels: { 'a/b': '2', 'c.d': '3' } } };
  expect(changedPaths(before, after)).toEqual({
    added: ['spec.items[0].value', 'metadata.labels["c.d"]'],
    changed: ['spec.image', 'metadata.labels["a/b"]'],
    removed: ['spec.old', 'spec.items[1]'],
  });
  const { added } = changedPaths({}, Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`key${index}`, index])));
  expect(added).toHaveLength(32);
});
