import { describe, expect, it } from 'vitest';
import { ApiClient } from '../../../src/api/client.ts';
import { readPodRequests, requestsOnNodes } from '../../../src/views/overview/node-requests.ts';

it('sums up the requests of pods that use a node', () => {
  const pod = (cpu: string, nodeName: string | undefined, phase: string) => ({
    spec: { containers: [{ name: 'c', resources: { requests: { cpu } } }], ...(nodeName !== undefined && { nodeName }) },
    status: { phase },
  });
  const pods = [pod('500m', 'a', 'Running'), pod('1', 'b', 'Pending'), pod('100', undefined, 'Pending'), pod('2', 'a', 'Succeeded')];
  expect(requestsOnNodes(pods)).toEqual({ count: 2, cpu: 1.5, memory: 0 });
});

describe('readPodRequests', () => {
  /** Lists this number of pods in pages, as the API server does. */
  function serverOf(all: number) {
    const limits: number[] = [];
    const client = new ApiClient(
      (url) => {
        const { searchParams } = new URL(url, 'https://cluster');
        const [from, limit] = [Number(searchParams.get('continue') ?? 0), Number(searchParams.get('limit'))];
        limits.push(limit);
        const count = Math.min(limit, all - from);
        const remaining = all - from - count;
        const items = Array.from({ length: count }, () => ({
          spec: { nodeName: 'a', containers: [{ name: 'c', resources: { requests: { cpu: '1' } } }] },
        }));
        const more = remaining > 0 ? { continue: String(from + count), remainingItemCount: remaining } : {};
        return Promise.resolve(new Response(JSON.stringify({ metadata: { resourceVersion: '1', ...more }, items })));
      },
      () => 'key',
    );
    return { limits, read: () => readPodRequests(client, new AbortController().signal) };
  }

  it('reads all pods of a small cluster in pages', async () => {
    const { limits, read } = serverOf(700);
    expect(await read()).toEqual({ count: 700, cpu: 700, memory: 0 });
    expect(limits).toEqual([100, 500, 500]);
  });

  it('reads one small page of a large cluster, and counts the rest', async () => {
    const { limits, read } = serverOf(30_000);
    expect(await read()).toEqual({ count: 30_000 });
    expect(limits).toEqual([100]);
  });
});
