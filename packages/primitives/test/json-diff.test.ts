import { diffJson, toJsonPatch, formatPath } from '@oarlock/primitives/json-diff';
import { describe, expect, it } from 'vitest';

const before = { metadata: { labels: { 'app.kubernetes.io/name': 'a', old: '1' } }, spec: { list: [1, 2, 3], same: { deep: true } } };
const after = {
  metadata: { labels: { 'app.kubernetes.io/name': 'b' }, annotations: { x: 'y' } },
  spec: { list: [1], same: { deep: true } },
};

describe('diffJson', () => {
  it('returns each difference with the value before and after', () => {
    expect(diffJson(before, after).map(({ path, ...rest }) => [formatPath(path), rest])).toEqual([
      ['metadata.labels["app.kubernetes.io/name"]', { before: 'a', after: 'b' }],
      ['metadata.labels.old', { before: '1' }],
      ['metadata.annotations', { after: { x: 'y' } }],
      ['spec.list[2]', { before: 3 }],
      ['spec.list[1]', { before: 2 }],
    ]);
    expect(diffJson(before, before)).toEqual([]);
    expect(diffJson({ a: [1] }, { a: { b: 1 } })).toEqual([{ path: ['a'], before: [1], after: { b: 1 } }]);
  });

  it('has differences that toJsonPatch converts into a JSON patch', () => {
    expect(toJsonPatch(diffJson(before, after))).toEqual([
      { op: 'replace', path: '/metadata/labels/app.kubernetes.io~1name', value: 'b' },
      { op: 'remove', path: '/metadata/labels/old' },
      { op: 'add', path: '/metadata/annotations', value: { x: 'y' } },
      { op: 'remove', path: '/spec/list/2' },
      { op: 'remove', path: '/spec/list/1' },
    ]);
    expect(toJsonPatch(diffJson({ list: [] }, { list: [1, 2] }))).toEqual([
      { op: 'add', path: '/list/0', value: 1 },
      { op: 'add', path: '/list/1', value: 2 },
    ]);
  });
});
