import type { RecordedSpan } from '@oarlock/spi/spans';
import { describe, expect, it } from 'vitest';
import { MemorySpanStore } from '../src/memory-span-store.ts';
import { slowestRollouts } from '../src/rollouts.ts';

let id = 0;
const span = (traceId: string, name: string, [start, end]: readonly [number, number], more: Partial<RecordedSpan> = {}): RecordedSpan => ({
  ...{ traceId, name, start, end },
  spanId: `s${++id}`,
  links: [],
  scope: 'test',
  process: 'p',
  attributes: {},
  ...more,
});
const request = (traceId: string, start: number, object: string, verb = 'patch') =>
  span(traceId, `${verb} x`, [start, start + 1], { attributes: { 'oarlock.object': object, 'oarlock.verb': verb, 'oarlock.user': 'ada' } });
const effect = (traceId: string, end: number, more: Partial<RecordedSpan> = {}) =>
  span(traceId, 'sync pod', [end - 1, end], { parentId: 'above', ...more });

describe('slowestRollouts', () => {
  const store = new MemorySpanStore(100);
  store.add([
    ...[request('old', 0, 'deployments.apps/a/old'), effect('old', 900)],
    ...[request('fast', 1000, 'deployments.apps/a/web'), effect('fast', 1010)],
    ...[request('slow', 2000, 'statefulsets.apps/a/db'), effect('slow', 2500, { error: 'no image' })],
    ...[request('label', 3000, 'deployments.apps/a/web')],
    ...[request('pod', 4000, 'pods/a/single', 'create'), effect('pod', 4100)],
    ...[request('read', 5000, 'deployments.apps/a/web', 'get'), effect('read', 5100)],
  ]);

  it('returns the latest changes of workloads that changed pods, the slowest first', () => {
    expect(slowestRollouts(store, 2)).toEqual([
      { traceId: 'slow', object: 'statefulsets.apps/a/db', user: 'ada', start: 2000, durationMs: 500, failed: 1 },
      { traceId: 'fast', object: 'deployments.apps/a/web', user: 'ada', start: 1000, durationMs: 10, failed: 0 },
    ]);
    expect(slowestRollouts(store, 10).map(({ traceId }) => traceId)).toEqual(['old', 'slow', 'fast']);
  });
});
