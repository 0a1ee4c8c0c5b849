import { afterEach, describe, expect, it, vi } from 'vitest';
import { ObjectStore } from '../../src/api/object-store.ts';
import { fakeClient, queryOf, type FakeResponse } from './support.ts';

const object = (name: string, version = 1) => ({
  metadata: { name, uid: `uid-${name}`, resourceVersion: String(version), managedFields: [{ manager: 'm' }] },
});
const list = (names: readonly string[], next = ''): FakeResponse => ({
  json: { metadata: { resourceVersion: '9', continue: next }, items: names.map((name) => object(name)) },
});

let stop: () => void = () => undefined;
afterEach(() => stop());

/** Starts a store over the responses, and resolves when all of them were requested. Notes the names at each change. */
async function start(responses: readonly FakeResponse[], maxObjects?: number) {
  const { client, requests } = fakeClient(responses);
  const store = new ObjectStore({
    client,
    path: '/api/v1/pods',
    query: { labelSelector: 'a=b' },
    ...(maxObjects !== undefined && { maxObjects }),
  });
  const seen: string[] = [];
  const names = () => store.items.map(({ metadata: { name } }) => name);
  store.subscribe(() => seen.push(`${names().join(' ')}${store.hasSynced ? '' : ' ...'}`));
  stop = store.start();
  await vi.waitFor(() => expect(requests.length).toBeGreaterThan(responses.length));
  return { store, requests, names, seen };
}

describe('an ObjectStore', () => {
  it('shows each page of the first list before the next one arrives', async () => {
    const { requests, names, seen } = await start([list(['a', 'b'], 'next'), list(['c'])]);
    expect(seen).toContain('a b ...');
    expect(names()).toEqual(['a', 'b', 'c']);
    expect(requests.map(queryOf)).toMatchObject([
      { labelSelector: 'a=b', limit: '500' },
      { labelSelector: 'a=b', limit: '500', continue: 'next' },
      { watch: 'true', resourceVersion: '9' },
    ]);
  });

  it('keeps its objects while they are listed again after the watch has expired', async () => {
    const expired = { lines: [{ type: 'ERROR', object: { code: 410, reason: 'Expired', message: 'too old' } }] };
    const { names, seen } = await start([list(['a', 'b']), expired, list(['b'], 'next'), list(['c'])]);
    await vi.waitFor(() => expect(names()).toEqual(['b', 'c']));
    expect(seen).not.toContain('b');
  });

  it('lists no more objects than it keeps, and drops the oldest for a new one', async () => {
    const added = { lines: [{ type: 'ADDED', object: object('d', 10) }] };
    const { requests, names } = await start([list(['a', 'b'], 'next'), list(['c'], 'more'), added], 3);
    expect(requests.slice(0, 2).map((request) => queryOf(request)['limit'])).toEqual(['3', '1']);
    await vi.waitFor(() => expect(names()).toEqual(['b', 'c', 'd']));
  });

  it('has the managed fields of objects, except of many: these are most of their memory', async () => {
    const changed = { lines: [{ type: 'ADDED', object: object('b', 10) }] };
    const managers = async (maxObjects?: number) => {
      const { store } = await start([list(['a']), changed], maxObjects);
      await vi.waitFor(() => expect(store.items).toHaveLength(2));
      stop();
      return store.items.map(({ metadata }) => metadata.managedFields?.length);
    };
    expect(await managers()).toEqual([1, 1]);
    expect(await managers(5)).toEqual([0, 0]);
  });
});
