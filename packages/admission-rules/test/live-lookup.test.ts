import { limitRanges } from '@oarlock/api/resources';
import type { LimitRange } from '@oarlock/api/types/core-v1';
import type { Client, Informers } from '@oarlock/spi/client';
import { expect, it } from 'vitest';
import { LiveLookup } from '../src/live-lookup.ts';

const named = (name: string): LimitRange => ({ metadata: { name, namespace: 'a' } });

/** A lookup over a cache and an API server, whose objects tests set, and the number of requests to the API server. */
function fixture() {
  const state = { cached: [] as LimitRange[], stored: [] as LimitRange[], requests: 0, now: 0, hasSynced: true };
  const informer = {
    list: () => state.cached,
    get hasSynced() {
      return state.hasSynced;
    },
  };
  const client = {
    list: async () => {
      state.requests += 1;
      return { items: state.stored };
    },
  };
  const lookup = new LiveLookup({
    resource: limitRanges,
    client: client as unknown as Client,
    informers: { forResource: () => informer } as unknown as Informers,
    clock: { now: () => state.now },
  });
  return { state, lookup };
}

it('sends one request in 30 s for a namespace without cached objects', async () => {
  const { state, lookup } = fixture();
  state.stored = [named('x')];
  expect(await Promise.all([lookup.list('a'), lookup.list('a')])).toEqual([[named('x')], [named('x')]]);
  expect(lookup.list('a')).toEqual([named('x')]);
  expect(state.requests).toBe(1);
  state.now = 30_000;
  await lookup.list('a');
  await lookup.list('b');
  expect(state.requests).toBe(3);
});

it('prefers the cache, also after its last object was deleted', async () => {
  const { state, lookup } = fixture();
  state.stored = [named('x')];
  await lookup.list('a');
  state.cached = [named('x'), named('y')];
  expect(lookup.list('a')).toEqual(state.cached);
  [state.cached, state.stored] = [[], []];
  expect(await lookup.list('a')).toEqual([]);
  expect(state.requests).toBe(2);
});

it('does not keep answers until the cache is synced', async () => {
  const { state, lookup } = fixture();
  state.hasSynced = false;
  await lookup.list('a');
  await lookup.list('a');
  expect(state.requests).toBe(2);
});

it('does not keep errors', async () => {
  const { state, lookup } = fixture();
  const failing = new LiveLookup({
    resource: limitRanges,
    client: { list: () => Promise.reject(new Error(`failure ${String((state.requests += 1))}`)) } as unknown as Client,
    informers: { forResource: () => ({ list: () => [], hasSynced: true }) } as unknown as Informers,
    clock: { now: () => 0 },
  });
  await expect(failing.list('a')).rejects.toThrow('failure 1');
  await expect(failing.list('a')).rejects.toThrow('failure 2');
  expect(await lookup.list('a')).toEqual([]);
});
