import { z } from 'zod';
import { Authz, noOpinion, type Attributes } from '@oarlock/spi/authz';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Paths, type PathRequest } from '@oarlock/spi/paths';
import { Spans, type RecordedSpan } from '@oarlock/spi/spans';
import { MemorySpanStore } from '@oarlock/tracing/memory-span-store';
import { spanIngestHandler, traceQueryHandler } from '@oarlock/tracing/trace-handlers';
import { beforeEach, describe, expect, it } from 'vitest';
import { span, spanId } from './support/spans.ts';

let store: MemorySpanStore;
let host: PluginHost;
const asked: Attributes[] = [];
/** Allows the user `reader` all. */
const authz = Authz.plugin({
  id: 'authz-reader',
  config: z.strictObject({}),
  create: () => ({
    authorize(attributes) {
      asked.push(attributes);
      return attributes.identity.name === 'reader' ? { decision: 'allow', reason: '' } : noOpinion;
    },
  }),
});
beforeEach(() => {
  store = new MemorySpanStore(1_000);
  asked.length = 0;
  host = new PluginHost()
    .provide(Spans, store)
    .add({ plugin: authz })
    .add({ plugin: traceQueryHandler })
    .add({ plugin: spanIngestHandler });
});
const call = async (path: string, more: Partial<PathRequest> = {}) => {
  const handler = host.get(Paths).find((each) => each.path === path);
  if (handler === undefined) throw new Error(`no handler for ${path}`);
  return handler.handle({
    method: handler.methods[0] ?? 'GET',
    path,
    query: {},
    body: undefined,
    identity: { name: 'admin', groups: [] },
    ...more,
  });
};
const post = (body: unknown) => call('/oarlock/v1/spans', { body });
const traces = (query: Record<string, string>) => call('/oarlock/v1/traces', { query });
const query = async (object: string, more: Record<string, string> = {}) => {
  const { body } = await call('/oarlock/v1/traces', { query: { object, ...more } });
  return (body as { spans: RecordedSpan[] }).spans.map(({ name }) => name);
};

describe('GET /oarlock/v1/traces', () => {
  const about = { 'oarlock.object': 'pods/d/a' };
  beforeEach(() => {
    store.add([
      span('old', { traceId: 'a'.repeat(32), start: 1, attributes: { ...about, 'oarlock.verb': 'create' } }),
      span('applied', { traceId: 'b'.repeat(32), start: 2, attributes: { ...about, 'oarlock.verb': 'patch' } }),
      span('effect', { traceId: 'b'.repeat(32), start: 3, parentId: spanId('applied') }),
      span('later', { traceId: 'c'.repeat(32), start: 4, parentId: spanId('other'), attributes: about }),
      span('looked', { traceId: 'd'.repeat(32), start: 5, attributes: { ...about, 'oarlock.verb': 'get' } }),
    ]);
  });

  it('returns one trace, and lists rollouts up to a bound', async () => {
    const { body } = await traces({ trace: 'b'.repeat(32) });
    expect((body as { spans: RecordedSpan[] }).spans.map(({ name }) => name)).toEqual(['applied', 'effect']);
    expect(await traces({ rollouts: '100' })).toEqual({ code: 200, body: { rollouts: [] } });
    for (const rollouts of ['0', '1001', 'x', '1.5'])
      expect(await traces({ rollouts })).toMatchObject({
        code: 400,
        body: { message: expect.stringContaining('must be an integer from 1 to 1000') },
      });
  });

  it('returns the trace of the last external change', async () => {
    expect(await query('pods/d/a')).toEqual(['applied', 'effect']);
  });

  it('returns every trace on request', async () => {
    expect(await query('pods/d/a', { all: '1' })).toEqual(['old', 'applied', 'effect', 'later', 'looked']);
  });

  it('returns only the spans of the object on request', async () => {
    const { body } = await traces({ object: 'pods/d/a', writes: '' });
    expect((body as { about: RecordedSpan[] }).about.map(({ name }) => name)).toEqual(['old', 'applied', 'later', 'looked']);
    expect(await query('pods/d/a', { writes: '' })).toEqual([]);
  });

  it('returns values before changes only to users who may read the object', async () => {
    const traceId = 'e'.repeat(32);
    const value = { 'oarlock.before': '{"spec.image":"\\"a\\""}' };
    store.add([
      span('write', { traceId, attributes: { 'oarlock.object': 'deployments.apps/d/web', 'oarlock.verb': 'patch' } }),
      span('plugin', { traceId, parentId: spanId('write'), attributes: { ...value, 'oarlock.phase': 'mutate' } }),
      span('second', { traceId, parentId: spanId('write'), attributes: value }),
      span('orphan', { traceId, parentId: spanId('gone'), attributes: value }),
      span('foreign', { traceId, parentId: spanId('write'), attributes: { ...value, 'oarlock.sender': 'node' } }),
      span('fake', { traceId, attributes: { 'oarlock.object': 'configmaps/d/c', 'oarlock.sender': 'node' } }),
      span('child', { traceId, parentId: spanId('fake'), attributes: value }),
    ]);
    const withValues = async (name: string, request: Record<string, string>) => {
      const { body } = await call('/oarlock/v1/traces', { query: request, identity: { name, groups: [] } });
      return (body as { spans: RecordedSpan[] }).spans.filter(({ attributes }) => 'oarlock.before' in attributes).map((each) => each.name);
    };
    for (const request of [{ trace: traceId }, { object: 'deployments.apps/d/web' }, { object: 'deployments.apps/d/web', all: '1' }]) {
      expect(await withValues('reader', request)).toEqual(['plugin', 'second']);
      expect(await withValues('other', request)).toEqual([]);
    }
    expect(asked).toHaveLength(6);
    expect(asked[0]).toMatchObject({ verb: 'get', group: 'apps', resource: 'deployments', namespace: 'd', name: 'web' });
  });

  it('returns the last span if no request is recorded', async () => {
    store = new MemorySpanStore(10);
    store.add([span('effect', { parentId: spanId('gone'), attributes: about })]);
    host = new PluginHost().provide(Spans, store).add({ plugin: authz }).add({ plugin: traceQueryHandler });
    expect(await query('pods/d/a')).toEqual(['effect']);
    expect(await query('pods/d/none')).toEqual([]);
    expect((await call('/oarlock/v1/traces')).code).toBe(200);
  });
});

describe('POST /oarlock/v1/spans', () => {
  it('stores the spans of another process with the user that posted them', async () => {
    const sent = [
      span('one', { parentId: spanId('zero'), error: 'no', attributes: { a: 1, b: 'x', c: true, 'oarlock.sender': 'other' } }),
      span('two'),
    ];
    expect(await post({ spans: JSON.parse(JSON.stringify(sent)) })).toEqual({ code: 200, body: { taken: 2 } });
    expect(store.trace(span('one').traceId)).toEqual(
      sent.map((each) => ({ ...each, attributes: { ...each.attributes, 'oarlock.sender': 'admin' } })),
    );
  });

  it('stores a bounded part of the text of a span', async () => {
    const attributes = Object.fromEntries(Array.from({ length: 64 }, (_, n) => [`key-${n}`, '\u20ac'.repeat(16_000)]));
    expect((await post({ spans: [{ ...span('one'), attributes, error: 'x'.repeat(16_000) }] })).code).toBe(200);
    const [stored] = store.trace(span('one').traceId);
    expect(JSON.stringify(stored).length).toBeLessThan(4096 + 1024);
    expect(stored?.attributes['oarlock.sender']).toBe('admin');
  });

  it('rejects invalid spans and too many spans', async () => {
    const good = JSON.parse(JSON.stringify(span('one'))) as Record<string, unknown>;
    const bad: unknown[] = [
      undefined,
      null,
      'x',
      {},
      { spans: 'x' },
      { spans: [{}] },
      { spans: [{ ...good, traceId: 'short' }] },
      { spans: [{ ...good, spanId: 'Z'.repeat(16) }] },
      { spans: [{ ...good, start: '1' }] },
      { spans: [{ ...good, name: 'x'.repeat(1_000) }] },
      { spans: [{ ...good, attributes: { a: { b: 1 } } }] },
      { spans: [{ ...good, attributes: { a: 'x'.repeat(20_000) } }] },
      { spans: Array(2_001).fill(good) },
    ];
    for (const body of bad) expect((await post(body)).code, JSON.stringify(body)?.slice(0, 100)).toBe(400);
    expect(store.size).toBe(0);
  });

  it('rejects a span with too many attributes', async () => {
    const attributes = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`key-${n}`, 'x']));
    expect((await post({ spans: [{ ...span('one'), attributes }] })).code).toBe(400);
  });
});
