import { describe, expect, it } from 'vitest';
import { changesOf } from '../../src/admission/admission-result.ts';

it('changesOf separates added, changed and removed fields, and quotes keys that are no words', () => {
  const before = { spec: { image: 'a', old: 1, items: [{ name: 'x' }, { name: 'y' }] }, metadata: { labels: { 'a/b': '1' } } };
  const after = { spec: { image: 'b', items: [{ name: 'x', value: 2 }] }, metadata: { labels: { 'a/b': '2', 'c.d': '3' } } };
  expect(changesOf(before, after)).toMatchObject({
    added: ['spec.items[0].value', 'metadata.labels["c.d"]'],
    changed: ['spec.image', 'metadata.labels["a/b"]'],
    removed: ['spec.old', 'spec.items[1]'],
  });
  const { added } = changesOf({}, Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`key${index}`, index])));
  expect(added).toHaveLength(32);
});

describe('values before changes', () => {
  const valuesOf = (before: unknown, after: unknown) => changesOf(before, after).valuesBefore;

  it('are those of changed and removed fields', () => {
    const before = { spec: { image: 'a', old: { x: [1, null] }, same: 1 } };
    expect(valuesOf(before, { spec: { image: 'b', same: 1, added: true } })).toEqual({ 'spec.image': '"a"', 'spec.old': '{"x":[1,null]}' });
    expect(Object.entries(valuesOf(JSON.parse('{"__proto__":1}'), {}))).toEqual([['__proto__', '1']]);
  });

  it('contain no secrets', () => {
    const env = (value: string) => ({ env: [{ name: 'DB_PASSWORD', value }] });
    expect(valuesOf({ spec: { apiToken: 'abc', ...env('abc') } }, { spec: { apiToken: 'abd', ...env('abd') } })).toEqual({
      'spec.apiToken': '"<redacted>"',
      'spec.env[0].value': '"<redacted>"',
    });
    expect(JSON.stringify(valuesOf({ spec: env('abc') }, { spec: {} }))).not.toContain('abc');
    expect(valuesOf({ a: `x eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl` }, { a: 'y' })).toEqual({ a: '"x <redacted>"' });
  });

  it('are bounded in length and number', () => {
    const long = (letter: string) => Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`k${index}`, `${letter} `.repeat(500)]));
    const values = valuesOf(long('a'), long('b'));
    expect(Object.values(values)[0]).toHaveLength(201);
    expect(Object.entries(values).flat().join('').length).toBeLessThanOrEqual(2_000);
    const wide = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`k${index}`, 1]));
    expect(valuesOf({ wide }, {})['wide']).toBe(JSON.stringify(Object.fromEntries(Object.entries(wide).slice(0, 8))));
    let deep: unknown = 1;
    for (let level = 0; level < 100; level += 1) deep = [deep];
    expect(valuesOf({ deep }, {})['deep']).toBe('[[[["…"]]]]');
  });
});
