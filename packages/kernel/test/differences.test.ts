import { differences, jsonPatch, pathText } from '@oarlock/kernel/differences';
import { describe, expect, it } from 'vitest';

const before = { metadata: { labels: { 'app.kubernetes.io/name': 'a', old: '1' } }, spec: { list: [1, 2, 3], same: { deep: true } } };
const after = {
  metadata: { labels: { 'app.kubernetes.io/name': 'b' }, annotations: { x: 'y' } },
  spec: { list: [1], same: { deep: true } },
};

describe('differences', () => {
  it('are told with what was there and what is', () => {
    expect(differences(before, after).map(({ path, ...rest }) => [pathText(path), rest])).toEqual([
      ['metadata.labels["app.kubernetes.io/name"]', { before: 'a', after: 'b' }],
      ['metadata.labels.old', { before: '1' }],
      ['metadata.annotations', { after: { x: 'y' } }],
      ['spec.list[2]', { before: 3 }],
      ['spec.list[1]', { before: 2 }],
    ]);
    expect(differences(before, before)).toEqual([]);
    expect(differences({ a: [1] }, { a: { b: 1 } })).toEqual([{ path: ['a'], before: [1], after: { b: 1 } }]);
  });

  it('make a JSON patch', () => {
    expect(jsonPatch(differences(before, after))).toEqual([
      { op: 'replace', path: '/metadata/labels/app.kubernetes.io~1name', value: 'b' },
      { op: 'remove', path: '/metadata/labels/old' },
      { op: 'add', path: '/metadata/annotations', value: { x: 'y' } },
      { op: 'remove', path: '/spec/list/2' },
      { op: 'remove', path: '/spec/list/1' },
    ]);
    expect(jsonPatch(differences({ list: [] }, { list: [1, 2] }))).toEqual([
      { op: 'add', path: '/list/0', value: 1 },
      { op: 'add', path: '/list/1', value: 2 },
    ]);
  });
});
