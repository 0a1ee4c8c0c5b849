import { expect, it } from 'vitest';
import { readParts } from '../../src/status/read-parts.ts';
import { problemOf } from '../../src/status/status.ts';

it('returns the parts that answer in time, and names the others', async () => {
  const timers: (() => void)[] = [];
  const clock = {
    after: (ms: number, fire: () => void) => {
      expect(ms).toBe(4000);
      timers.push(fire);
      return { cancel() {} };
    },
  };
  const reading = readParts<{ checks: string; plugins: string; nodes: string }>(
    {
      checks: async () => '[-]etcd failed',
      plugins: () => Promise.reject(new Error('forbidden')),
      nodes: () => new Promise(() => {}),
    },
    clock,
  );
  timers.at(-1)?.(); // that of `nodes`
  expect(await reading).toEqual({ parts: { checks: '[-]etcd failed' }, failures: ['plugins: forbidden', 'nodes: no answer within 4 s'] });
});

it('reports failed checks together with the parts that could not be read', () => {
  const apiServer = {
    checks: ['[+]ping ok', '[-]storage failed: no quorum'],
    plugins: [],
    nodesWithoutIsolation: [],
    nodesWithoutImages: [],
  };
  expect(problemOf({ apiServer, failures: ['nodes: no answer within 4 s'] })).toBe(
    'the API server is not ready: storage failed; nodes: no answer within 4 s',
  );
  expect(problemOf({ apiServer: { ...apiServer, checks: ['[+]ping ok'] } })).toBeUndefined();
  expect(problemOf({})).toBeUndefined();
});
