import { describe, expect, it } from 'vitest';
import { changedFields, valueAt } from '../../../../src/views/object/trace/changed-fields.ts';

describe('changedFields', () => {
  it('returns the fields of an admission span', () => {
    const attributes = { 'oarlock.added': '["spec.a","spec.b"]', 'oarlock.removed': '["spec.c"]', 'oarlock.phase': 'mutate' };
    expect(changedFields({ attributes })).toEqual([
      { kind: 'added', path: 'spec.a' },
      { kind: 'added', path: 'spec.b' },
      { kind: 'removed', path: 'spec.c' },
    ]);
  });

  it('ignores attributes that are no list: other processes post spans', () => {
    expect(changedFields({ attributes: { 'oarlock.added': '[', 'oarlock.changed': '{"a":1}', 'oarlock.removed': 3 } })).toEqual([]);
  });
});

describe('valueAt', () => {
  const object = { metadata: { labels: { 'a.b/c': 'd' } }, spec: { containers: [{ image: 'x' }, { image: 'y' }] } };
  it.each([
    ['spec.containers[1].image', 'y'],
    ['metadata.labels["a.b/c"]', 'd'],
    ['spec.containers[5].image', undefined],
    ['spec.constructor', undefined],
  ])('%s: %s', (path, expected) => {
    expect(valueAt(object, path)).toBe(expected);
  });
});
