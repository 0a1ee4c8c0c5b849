import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { ApiClient } from '../../../../src/api/client.ts';
import { LogStore, logSourcesOf, timeKey, type LogSource } from '../../../../src/views/object/logs/log-store.ts';
import type { Pod } from '../../../../src/views/object/workload-kinds.ts';

const pod = (name: string, ids: Readonly<Record<string, string | undefined>>): Pod => ({
  metadata: { name, namespace: 'n', uid: name, resourceVersion: '1' },
  status: {
    containerStatuses: Object.entries(ids).map(([container, containerID]) => ({
      name: container,
      ...(containerID !== undefined && { containerID }),
    })),
  },
});
const source = (containerID: string): LogSource => ({ namespace: 'n', pod: 'p', container: 'c', containerID, isRunning: false });

/** A client that returns these logs or responses, one after the other, or fails with these errors. */
function clientOf(...results: readonly (string | Response | Error)[]) {
  const urls: string[] = [];
  const client = new ApiClient(
    (url) => {
      const result = results[urls.length] ?? '';
      urls.push(url);
      if (result instanceof Error) return Promise.reject(result);
      return Promise.resolve(result instanceof Response ? result : new Response(result));
    },
    () => 'key',
  );
  return { client, urls };
}
const options = { follow: true, previous: false, sinceSeconds: '' };

describe('logSourcesOf', () => {
  it('leaves out containers that have not been created', () => {
    expect(logSourcesOf([pod('p', { c: 'id', d: undefined, e: '' })], '', '')).toEqual([source('id')]);
  });
  it('selects a pod and a container', () => {
    const pods = [pod('p', { c: 'id', d: 'other' }), pod('q', { c: 'third' })];
    expect(logSourcesOf(pods, 'p', 'c')).toEqual([source('id')]);
  });
  it('knows which containers run', () => {
    const { metadata } = pod('p', {});
    const containerStatuses = [{ name: 'c', containerID: 'id', state: { running: {} } }];
    expect(logSourcesOf([{ metadata, status: { containerStatuses } }], '', '')).toEqual([{ ...source('id'), isRunning: true }]);
  });
});

describe('timeKey', () => {
  it('sorts times of different precision and zones', () => {
    const times = ['2026-01-02T04:04:05+01:00', '2026-01-02T03:04:05.1Z', '2026-01-02T03:04:05.12Z', '2026-01-02T03:04:06Z'];
    expect(times.map(timeKey).toSorted()).toEqual(times.map(timeKey));
    expect(timeKey('2026-01-02T03:04:05.100Z')).toBe(timeKey('2026-01-02T04:04:05.1+01:00'));
  });
});

describe('LogStore', () => {
  it('resumes the log of a running container whose stream ended, without a lost or repeated line', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const before = '2026-01-02T03:04:05.1Z a\n2026-01-02T03:04:05.1Z b\n';
    const { client, urls } = clientOf(before, `2026-01-02T03:04:05Z old\n${before}2026-01-02T03:04:05.1Z c\n2026-01-02T03:04:05.12Z d\n`);
    const store = new LogStore(client, options);
    store.setSources([{ ...source('one'), isRunning: true }]);
    await vi.waitFor(() => expect(store.notices.get('p/c')).toBe('resuming'));
    store.setSources([source('one')]);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(store.lines.map(({ text }) => text)).toEqual(['a', 'b', 'c', 'd']);
    expect(store.notices.get('p/c')).toBe('ended');
    expect(new URL(urls[1] ?? '', 'https://cluster').searchParams.get('sinceTime')).toBe('2026-01-02T03:04:05Z');
  });

  it('removes the report of a lost connection when the log is read again', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    let requests = 0;
    const client = new ApiClient(
      () => {
        requests += 1;
        return requests === 1 ? Promise.reject(new TypeError('offline')) : Promise.resolve(new Response(new ReadableStream()));
      },
      () => 'key',
    );
    const store = new LogStore(client, options);
    let notices: readonly string[] = [];
    store.subscribe(() => {
      notices = [...store.notices.values()];
    });
    store.setSources([{ ...source('one'), isRunning: true }]);
    await vi.waitFor(() => expect(notices).toEqual(['offline']));
    await vi.advanceTimersByTimeAsync(2_000);
    expect([requests, notices]).toEqual([2, []]);
  });

  it.each(['offline', 'overloaded'])('reads the log of the previous instance again after a request failed (%s)', async (failure) => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { client } = clientOf(
      failure === 'offline' ? new TypeError(failure) : new Response(failure, { status: 503 }),
      '2026-01-02T03:04:05Z first\n',
    );
    const store = new LogStore(client, { follow: false, previous: true, sinceSeconds: '' });
    store.setSources([source('one')]);
    await vi.waitFor(() => expect(store.notices.get('p/c')).toBeDefined());
    await vi.advanceTimersByTimeAsync(2_000);
    expect(store.lines.map(({ text }) => text)).toEqual(['first']);
    expect(store.notices.get('p/c')).toBe('ended');
  });

  it('does not repeat the request for a previous instance that does not exist', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { client, urls } = clientOf(new Response('previous terminated container not found', { status: 400 }));
    const store = new LogStore(client, { follow: false, previous: true, sinceSeconds: '' });
    store.setSources([source('one')]);
    await vi.waitFor(() => expect(store.notices.get('p/c')).toBeDefined());
    await vi.advanceTimersByTimeAsync(10_000);
    expect(urls).toHaveLength(1);
  });

  it('reads the log of a container that was restarted', async () => {
    const { client, urls } = clientOf('2026-01-02T03:04:05Z first\n', '2026-01-02T03:04:06Z second\n');
    const store = new LogStore(client, options);
    store.setSources([source('one')]);
    await vi.waitFor(() => expect(store.notices.get('p/c')).toBe('ended'));
    store.setSources([source('one')]);
    store.setSources([source('two')]);
    await vi.waitFor(() => expect(store.lines.map(({ text }) => text)).toEqual(['first', 'second']));
    expect(urls).toHaveLength(2);
  });

  it.each([
    [
      { follow: false, previous: true, sinceSeconds: '' },
      { follow: 'false', previous: 'true', tailLines: '2000' },
    ],
    [
      { follow: true, previous: false, sinceSeconds: '600' },
      { follow: 'true', previous: 'false', tailLines: '2000', sinceSeconds: '600' },
    ],
  ])('requests the log with %j', async (chosen, expected) => {
    const { client, urls } = clientOf('2026-01-02T03:04:05Z first\n');
    const store = new LogStore(client, chosen);
    store.setSources([source('one')]);
    await vi.waitFor(() => expect(store.notices.get('p/c')).toBe('ended'));
    const { pathname, searchParams } = new URL(urls[0] ?? '', 'https://cluster');
    expect(pathname).toBe('/api/v1/namespaces/n/pods/p/log');
    expect(Object.fromEntries(searchParams)).toEqual({ container: 'c', timestamps: 'true', ...expected });
  });

  it('interleaves the lines of several containers by time, and keeps the order of the lines of each', async () => {
    const { client } = clientOf(
      '2026-01-02T03:04:05.1Z a1\n2026-01-02T03:04:05.12Z a2\n2026-01-02T03:04:09Z a3\n2026-01-02T03:04:09Z a4\n',
      '2026-01-02T04:04:04.5+01:00 b1\n2026-01-02T03:04:05.115Z b2\n2026-01-02T03:04:07Z b3\nwithout a time\n',
    );
    const store = new LogStore(client, options);
    store.setSources([source('one'), { ...source('two'), pod: 'q' }]);
    await vi.waitFor(() => expect([...store.notices.values()]).toEqual(['ended', 'ended']));
    const order = ['b1', 'a1', 'b2', 'a2', 'b3', 'a3', 'a4', 'without a time'];
    expect(store.lines.map(({ text }) => text)).toEqual(order);
  });
});
