import { describe, expect, it } from 'vitest';
import { changedFields, diffLines, valueAt } from '../../../../src/views/object/trace/changed-fields.ts';

describe('changedFields', () => {
  it('returns the fields of an admission span', () => {
    const attributes = {
      'oarlock.added': '["spec.a","spec.b"]',
      'oarlock.removed': '["spec.c"]',
      'oarlock.before': '{"spec.c":"[1]"}',
      'oarlock.phase': 'mutate',
    };
    expect(changedFields({ attributes })).toEqual([
      { kind: 'added', path: 'spec.a', before: undefined },
      { kind: 'added', path: 'spec.b', before: undefined },
      { kind: 'removed', path: 'spec.c', before: '[1]' },
    ]);
  });

  it('ignores attributes that are no list: other processes post spans', () => {
    expect(changedFields({ attributes: { 'oarlock.added': '[', 'oarlock.changed': '{"a":1}', 'oarlock.removed': 3 } })).toEqual([]);
    for (const before of ['[', 'null', '3', '{"a":1}', '[1]', true])
      expect(changedFields({ attributes: { 'oarlock.removed': '["a"]', 'oarlock.before': before } })).toEqual([
        { kind: 'removed', path: 'a', before: undefined },
      ]);
  });
});

describe('diffLines', () => {
  it.each([
    ['an added field', { kind: 'added' as const, before: undefined }, ['+ a: 2']],
    ['a changed field', { kind: 'changed' as const, before: '1' }, ['- a: 1', '+ a: 2']],
    ['a changed field without a value before', { kind: 'changed' as const, before: undefined }, ['~ a: 2']],
    ['a removed field', { kind: 'removed' as const, before: '1' }, ['- a: 1']],
    ['a removed field without a value before', { kind: 'removed' as const, before: undefined }, ['- a']],
  ])('shows %s', (_, field, lines) => {
    expect(diffLines({ ...field, path: 'a' }, 2).map(({ sign, text }) => `${sign} ${text}`)).toEqual(lines);
  });

  it('shows a field whose value after the change is not known', () => {
    expect(diffLines({ kind: 'changed', path: 'a', before: '1' }, undefined).map(({ text }) => text)).toEqual(['a: 1', 'a']);
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
