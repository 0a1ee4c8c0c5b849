import { buildTrees, type TreeNode } from '@oarlock/tracing/trace-tree';
import { describe, expect, it } from 'vitest';
import { attributesOf, formatMs, indentOf, traceOf } from '../../../../src/views/object/trace/trace-rows.ts';

type Span = TreeNode['span'];

const span = (spanId: string, [start, end]: readonly [number, number], more: Partial<Span> = {}): Span => ({
  traceId: 't',
  spanId,
  name: spanId,
  scope: 'test',
  process: 'test',
  links: [],
  attributes: {},
  start,
  end,
  ...more,
});
const spans = [
  span('create', [1000, 1010], { attributes: { 'oarlock.object': 'pods/d/a' } }),
  span('admission', [1002, 1004], { parentId: 'create' }),
  span('reconcile', [1020, 1050], { parentId: 'create', attributes: { 'oarlock.enqueued_at': 1013 } }),
  span('event', [1011, 1012], { parentId: 'create' }),
];
const onlyTrace = (all: readonly Span[]) => {
  const [tree] = buildTrees(all);
  if (tree === undefined) throw new Error('no tree');
  return traceOf(tree);
};

describe('traceOf', () => {
  it('returns the steps depth first, with times relative to the root', () => {
    expect(onlyTrace(spans).rows.map(({ span: { name }, depth, startMs, durationMs }) => [name, depth, startMs, durationMs])).toEqual([
      ['create', 0, 0, 10],
      ['admission', 1, 2, 2],
      ['event', 1, 11, 1],
      ['reconcile', 1, 20, 30],
    ]);
  });
  it('divides the time before a step into watch and queue', () => {
    expect(onlyTrace(spans).rows.at(-1)).toMatchObject({ wait: { watchMs: 3, queueMs: 7 } });
    expect(onlyTrace(spans).rows[1]?.wait).toBeUndefined();
  });
  it('marks the steps of the critical path', () => {
    const { rows, totalMs, criticalSteps } = onlyTrace(spans);
    expect(rows.filter(({ isCritical }) => isCritical).map(({ span: { name } }) => name)).toEqual(['create', 'reconcile']);
    expect(totalMs).toBe(50);
    expect(criticalSteps.map(({ what }) => what)).toEqual(['create', 'watch, before reconcile', 'queue, before reconcile', 'reconcile']);
  });
  it('bounds the number of rows and counts the rest', () => {
    const many = Array.from({ length: 3000 }, (_, index) => span(`s${index}`, [1001, 1002], { parentId: 'create' }));
    const { rows, omitted } = onlyTrace([span('create', [1000, 1010]), ...many]);
    expect([rows.length, omitted]).toEqual([2000, 1001]);
  });
});

describe('attributesOf', () => {
  it('omits the names of objects and the attributes that only programs use', () => {
    const attributes = { 'oarlock.object': 'pods/a/b', 'oarlock.plugin': 'p', 'oarlock.enqueued_at': 1, 'http.response.status_code': 201 };
    expect(attributesOf(span('a', [0, 1], { attributes }))).toBe('pods/a/b plugin=p status_code=201');
  });
});

describe('formatMs', () => {
  it.each([
    [0.0123, '0.01 ms'],
    [9.994, '9.99 ms'],
    [123.4, '123 ms'],
    [1234, '1.23 s'],
    [12_340, '12.3 s'],
  ])('formats %d', (ms, expected) => {
    expect(formatMs(ms)).toBe(expected);
  });
});

describe('indentOf', () => {
  it('indents each level, and leaves space for the timeline in a chain of a hundred causes', () => {
    expect([0, 1, 2, 12, 13, 100].map((depth) => indentOf(depth).length)).toEqual([0, 2, 4, 24, 24, 24]);
  });
});
