import { afterEach, describe, expect, it, vi } from 'vitest';
import { ApiClient } from '../../src/api/client.ts';
import { TableStore } from '../../src/api/table-store.ts';
import { reflect } from '../../src/api/watch.ts';
import { fakeClient, queryOf, type FakeResponse } from './support.ts';

const columnDefinitions = [{ name: 'Name', type: 'string', priority: 0 }];
const row = (name: string, version: number, namespace = 'default') => ({
  cells: [name],
  object: { metadata: { name, namespace, uid: `uid-${name}`, resourceVersion: String(version) } },
});
const list = (rows: readonly unknown[], version: number, next = ''): FakeResponse => ({
  json: {
    metadata: { resourceVersion: String(version), continue: next, ...(next !== '' && { remainingItemCount: 7 }) },
    columnDefinitions,
    rows,
  },
});
const event = (type: string, name: string, version: number) => ({ type, object: { rows: [row(name, version)] } });
const expired = { type: 'ERROR', object: { code: 410, reason: 'Expired', message: 'too old' } };

let stop: () => void = () => undefined;
afterEach(() => stop());

/** Starts a store over the responses, and resolves when all of them were requested. */
async function start(responses: readonly FakeResponse[]) {
  const { client, requests } = fakeClient(responses);
  const waits: number[] = [];
  const states: string[] = [];
  const store = new TableStore({
    client,
    path: '/api/v1/pods',
    labelSelector: 'a=b',
    reflectWith: (options) =>
      reflect({
        ...options,
        wait: async (ms) => void waits.push(ms),
        onState: (state, reason) => {
          states.push(state);
          options.onState(state, reason);
        },
      }),
  });
  stop = store.start();
  await vi.waitFor(() => expect(requests.length).toBeGreaterThan(responses.length));
  return { store, requests, waits, states, names: () => store.rows.map(({ name }) => name) };
}

describe('a table', () => {
  it('is listed in a small first page and pages of 500 with its selectors, and sorted by namespace and name', async () => {
    const { requests, names, store } = await start([list([row('b', 1), row('z', 2, 'a')], 9, 'next'), list([row('a', 3)], 9)]);
    expect(names()).toEqual(['z', 'a', 'b']);
    expect(store.remaining).toBe(0);
    expect(queryOf(requests[0]!)).toEqual({ labelSelector: 'a=b', limit: '100' });
    expect(queryOf(requests[1]!)).toEqual({ labelSelector: 'a=b', limit: '500', continue: 'next' });
    expect(queryOf(requests[2]!)).toMatchObject({ watch: 'true', resourceVersion: '9', allowWatchBookmarks: 'true', labelSelector: 'a=b' });
  });

  it('requests each page before it processes the one before', async () => {
    const { client, requests } = fakeClient([list([row('a', 1)], 9, 'next'), list([row('b', 2)], 9, 'last'), list([row('c', 3)], 9)]);
    const requested: number[] = [];
    const store = new TableStore({ client, path: '/api/v1/pods', onRows: () => requested.push(requests.length) });
    stop = store.start();
    await vi.waitFor(() => expect(requested).toEqual([2, 3, 3]));
  });

  it('parses later pages while they arrive: their text is never in memory as a whole', async () => {
    const pages = [list([row('a', 1)], 9, 'next'), list([row('b', 2), row('c', 3)], 9)];
    const readsAll = () => Promise.reject(new Error('the whole text was read'));
    const client = new ApiClient(
      async (url, { signal }) => {
        const page = url.includes('watch') ? undefined : pages.shift();
        if (page === undefined || !('json' in page))
          return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
        const response = Response.json(page.json);
        if (url.includes('continue')) Object.assign(response, { json: readsAll, text: readsAll });
        return response;
      },
      () => 'key',
    );
    const store = new TableStore({ client, path: '/api/v1/pods' });
    stop = store.start();
    await vi.waitFor(() => expect(store.rows.map(({ name }) => name)).toEqual(['a', 'b', 'c']));
    expect(store.reason).toBe('');
  });

  it('lists again from the beginning when a later page has expired', async () => {
    const gone = { json: { reason: 'Expired', message: 'too old' }, status: 410 };
    const { names } = await start([list([row('a', 1)], 9, 'next'), gone, list([row('a', 1), row('b', 2)], 12)]);
    expect(names()).toEqual(['a', 'b']);
  });

  it('follows events, and resumes an ended watch from the last one, bookmarks included', async () => {
    const events = [event('ADDED', 'b', 10), event('MODIFIED', 'a', 11), event('DELETED', 'a', 12)];
    const bookmark = { type: 'BOOKMARK', object: { rows: [row('', 20)] } };
    const { requests, names } = await start([list([row('a', 1)], 9), { lines: [...events, bookmark] }]);
    expect(names()).toEqual(['b']);
    expect(queryOf(requests[2]!)['resourceVersion']).toBe('20');
  });

  it('follows events after the first, in whose tables servers write no columns', async () => {
    const later = (type: string, name: string, version: number) => ({
      type,
      object: { columnDefinitions: null, rows: [row(name, version)] },
    });
    const first = { type: 'ADDED', object: { columnDefinitions, rows: [row('b', 10)] } };
    const none = { type: 'BOOKMARK', object: { columnDefinitions: null, rows: null } };
    const { waits, names, store } = await start([
      list([row('a', 1)], 9),
      { lines: [first, later('MODIFIED', 'a', 11), none, later('ADDED', 'c', 12)] },
    ]);
    expect(names()).toEqual(['a', 'b', 'c']);
    expect(store.columns).toEqual(columnDefinitions);
    expect(waits).toEqual([]);
  });

  it('reports a fault of the page as an error, not only as a lost connection', async () => {
    const reportError = vi.fn();
    vi.stubGlobal('reportError', reportError);
    await start([list([], 9), { lines: [{ type: 'ADDED', object: { rows: [{ cells: [] }] } }] }]);
    vi.unstubAllGlobals();
    expect(reportError).toHaveBeenCalledWith(expect.any(TypeError));
  });

  it('drops an incomplete event at the end of a stream, and receives it again', async () => {
    const { names, requests } = await start([list([], 9), { lines: [event('ADDED', 'a', 10)], tail: '{"type":"ADDED","object":{"ro' }]);
    expect(names()).toEqual(['a']);
    expect(queryOf(requests[2]!)['resourceVersion']).toBe('10');
  });

  it('resumes from the last version after the connection was lost, with an increasing delay', async () => {
    const { requests, waits, states, names } = await start([
      list([row('a', 1)], 9),
      { fails: 'offline' },
      { fails: 'offline' },
      { lines: [event('ADDED', 'b', 10)] },
      { fails: 'offline' },
    ]);
    expect(waits).toEqual([500, 1000, 500]);
    expect(requests.slice(1).map((request) => queryOf(request)['resourceVersion'])).toEqual(['9', '9', '9', '10', '10']);
    expect(states).toContain('reconnecting');
    expect(names()).toEqual(['a', 'b']);
  });

  it.each([
    ['an event', { lines: [expired] }],
    ['a status', { json: { reason: 'Expired', message: 'too old' }, status: 410 }],
  ])('is listed again after Expired as %s, and drops what no longer exists', async (_, response) => {
    const { names, store } = await start([list([row('gone', 1), row('kept', 2)], 9), response, list([row('kept', 2), row('new', 3)], 30)]);
    expect(names()).toEqual(['kept', 'new']);
    expect(store.relists).toBe(1);
  });

  it('keeps its rows until a later list is complete', async () => {
    const { names } = await start([list([row('a', 1)], 9), { lines: [expired] }, list([row('b', 2)], 30, 'next')]);
    expect(names()).toEqual(['a']);
  });

  it('stops when the user may not list, and reports the reason', async () => {
    const { client } = fakeClient([{ json: { reason: 'Forbidden', message: 'ada cannot list' }, status: 403 }]);
    const store = new TableStore({ client, path: '/api/v1/secrets' });
    stop = store.start();
    await vi.waitFor(() => expect(store.state).toBe('stopped'));
    expect(store.reason).toBe('ada cannot list');
  });

  it('stops when the server rejects the selector, which another attempt does not change', async () => {
    const { client, requests } = fakeClient([{ json: { reason: 'BadRequest', message: 'unable to parse requirement' }, status: 400 }]);
    const store = new TableStore({ client, path: '/api/v1/pods', labelSelector: '!!' });
    stop = store.start();
    await vi.waitFor(() => expect(store.state).toBe('stopped'));
    expect([store.reason, requests.length]).toEqual(['unable to parse requirement', 1]);
  });

  it('notifies once for many events', async () => {
    const { store } = await start([list([], 1)]);
    let count = 0;
    store.subscribe(() => {
      count += 1;
    });
    for (let i = 0; i < 1_000; i += 1) store.apply({ type: 'ADDED', object: { rows: [row(`p${i}`, i)] } });
    await Promise.resolve();
    expect(count).toBe(1);
    expect(store.rows).toHaveLength(1_000);
    expect(store.rows).toBe(store.rows);
  });
});
