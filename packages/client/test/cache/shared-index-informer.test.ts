import type { KubeObject } from '@oarlock/api/object';
import { configMaps, nodes, pods } from '@oarlock/api/resources';
import { SharedIndexInformer } from '@oarlock/client/cache/shared-index-informer';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { WatchEvent } from '@oarlock/spi/client';
import { failure } from '@oarlock/api/status';
import { stalledClient } from '@oarlock/testing/stalled-client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, sequence } from '@oarlock/testing/memory-api';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

const object = (
  name: string,
  resourceVersion: number,
  more: { uid?: string; namespace?: string; labels?: Record<string, string> } = {},
): KubeObject => {
  const { uid = name, namespace = 'd', labels } = more;
  return { metadata: { namespace, name, uid, resourceVersion: String(resourceVersion), ...(labels && { labels }) } };
};
const names = (objects: readonly KubeObject[]) => objects.map(({ metadata }) => metadata?.name).sort();
const spanContext: SpanContext = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 };

function listening(informer: SharedIndexInformer<KubeObject>): string[] {
  const events: string[] = [];
  const at = ({ metadata }: KubeObject) => `${metadata?.name}@${metadata?.resourceVersion}`;
  informer.addEventHandler({
    onAdd: (o) => events.push(`added ${at(o)}`),
    onDelete: (o) => events.push(`deleted ${at(o)}`),
    onUpdate: (o, old) => events.push(o === old ? `refreshed ${at(o)}` : `updated ${at(old)} ${at(o)}`),
  });
  return events;
}

describe('SharedIndexInformer', () => {
  it('notifies each difference once: a new list against the cache, deletes with the last state', async () => {
    const informer = new SharedIndexInformer<KubeObject>(configMaps);
    const events = listening(informer);
    await informer.replace([object('a', 1), object('b', 2), object('c', 3)]);
    await informer.apply([
      { type: 'MODIFIED', object: object('a', 4) },
      { type: 'ADDED', object: object('a', 4) },
      { type: 'DELETED', object: object('x', 5) },
    ]);
    const again = object('b', 2);
    await informer.replace([object('a', 9), again, object('d', 8)]);
    expect(events).toEqual([
      'added a@1',
      'added b@2',
      'added c@3',
      'updated a@1 a@4',
      'updated a@4 a@9',
      'refreshed b@2',
      'added d@8',
      'deleted c@3',
    ]);
    expect(informer.get('d/b')).toBe(again);
    expect(informer.size).toBe(3);
  });

  it('notifies a recreated object of the same name as a delete and an add', async () => {
    const informer = new SharedIndexInformer<KubeObject>(configMaps);
    const events = listening(informer);
    await informer.replace([object('a', 1)]);
    await informer.replace([object('a', 5, { uid: 'other' })]);
    expect(events).toEqual(['added a@1', 'deleted a@1', 'added a@5']);
  });

  it('passes the span context and the same objects, notifies late handlers of cached objects, and stops on request', async () => {
    const informer = new SharedIndexInformer<KubeObject>(configMaps);
    const added = object('a', 1);
    await informer.apply([{ type: 'ADDED', object: added, spanContext }]);
    const seen: unknown[] = [];
    const off = informer.addEventHandler({ onAdd: (o, c) => seen.push(o, c), onDelete: (o, c) => seen.push(o, c) });
    expect(seen).toEqual([added, undefined]);
    expect(seen[0]).toBe(added);
    const gone = object('a', 2);
    await informer.apply([{ type: 'DELETED', object: gone, spanContext }]);
    expect(seen.slice(2)).toEqual([gone, spanContext]);
    off();
    await informer.apply([{ type: 'ADDED', object: added, spanContext }]);
    expect(seen).toHaveLength(4);
  });

  it('continues if a handler throws', async () => {
    const informer = new SharedIndexInformer<KubeObject>(configMaps);
    informer.addEventHandler({
      onAdd() {
        throw new Error('mine');
      },
    });
    const events = listening(informer);
    await informer.replace([object('a', 1), object('b', 1)]);
    expect(events).toHaveLength(2);
    expect(informer.hasSynced).toBe(true);
  });

  it('indexes by namespace and by functions that run once per version', async () => {
    const informer = new SharedIndexInformer<KubeObject>(pods);
    let calls = 0;
    const byLabel = (o: KubeObject) => {
      calls += 1;
      return Object.values(o.metadata?.labels ?? {});
    };
    informer.addIndexer('team', byLabel);
    informer.addIndexer('team', byLabel);
    expect(() => informer.addIndexer('team', () => [])).toThrow('exists already');
    await informer.replace([
      object('a', 1, { labels: { x: 'red', y: 'blue' } }),
      object('b', 1, { labels: { x: 'red' }, namespace: 'e' }),
      object('c', 1),
    ]);
    expect(calls).toBe(3);
    expect(names(informer.byIndex('team', 'red'))).toEqual(['a', 'b']);
    expect(names(informer.list('e'))).toEqual(['b']);
    const before = informer.byIndex('team', 'red');
    await informer.apply([
      { type: 'MODIFIED', object: object('a', 2, { labels: { x: 'blue' } }) },
      { type: 'DELETED', object: object('b', 2, { namespace: 'e' }) },
    ]);
    expect(names(informer.byIndex('team', 'red'))).toEqual([]);
    expect(informer.byIndex('team', 'blue')[0]?.metadata?.resourceVersion).toBe('2');
    expect(names(before)).toEqual(['a', 'b']);
    expect(names(informer.list())).toEqual(['a', 'c']);
    expect(() => informer.byIndex('nope', 'x')).toThrow('no index nope');
    expect(new SharedIndexInformer(nodes).list('e')).toEqual([]);
  });

  it('yields to the event loop while it notifies thousands of events', async () => {
    const informer = new SharedIndexInformer<KubeObject>(configMaps);
    const busy = () => {
      const until = performance.now() + 0.05;
      while (performance.now() < until);
    };
    informer.addEventHandler({ onAdd: busy });
    let turns = 0;
    let running = true;
    const tick = () => {
      turns += 1;
      if (running) setImmediate(tick);
    };
    setImmediate(tick);
    await informer.apply(Array.from({ length: 4000 }, (_, n): WatchEvent => ({ type: 'ADDED', object: object(`o${n}`, n) })));
    running = false;
    expect(informer.size).toBe(4000);
    expect(turns).toBeGreaterThan(30); // 200 ms of work in slices of 5 ms
  });

  it('rejects waiting callers when it is closed, or when the signal aborts', async () => {
    const informer = new SharedIndexInformer<KubeObject>(configMaps);
    const abort = new AbortController();
    const aborted = informer.whenSynced(abort.signal);
    const closed = informer.whenSynced();
    abort.abort(new Error('enough'));
    informer.close();
    await expect(aborted).rejects.toThrow('enough');
    await expect(closed).rejects.toThrow('stopped before it had synced');
  });
});

describe('SharedInformerFactory', () => {
  it("creates one informer per resource and scope, which shares the server's objects", async () => {
    const clock = new FakeClock();
    const api = memoryApi({ clock });
    api.seed(configMaps, object('a', 1, { labels: { on: 'yes' } }), object('b', 1));
    const informers = new SharedInformerFactory({ client: api.client(), clock, random: sequence(1) });
    const all = informers.forResource(configMaps);
    expect(informers.forResource(configMaps, {})).toBe(all);
    const some = informers.forResource(configMaps, { labelSelector: 'on=yes' });
    expect(some).not.toBe(all);
    await clock.settle();
    expect(api.requests).toEqual([]);
    informers.start();
    await informers.whenSynced();
    expect(names(all.list())).toEqual(['a', 'b']);
    expect(names(some.list())).toEqual(['a']);
    expect(all.get('d/a')).toBe(some.get('d/a'));
    expect(all.get('d/a')).toBe(api.object(configMaps, { namespace: 'd', name: 'a' }));
    const late = informers.forResource(nodes);
    late.addIndexer('x', () => ['y']);
    await late.whenSynced();
    await informers.stop();
    expect(clock.pending).toBe(0);
    await expect(informers.forResource(pods).whenSynced()).rejects.toThrow('stopped');
  });

  it('refresh makes earlier writes visible, even if the watch delivers no events', async () => {
    const clock = new FakeClock();
    const api = memoryApi({ clock });
    const { client, stallWatches: deafen } = stalledClient(api.client());
    const informers = new SharedInformerFactory({ client, clock, random: sequence(1) });
    const maps = informers.forResource(configMaps);
    const events = listening(maps as SharedIndexInformer<KubeObject>);
    informers.start();
    api.seed(configMaps, object('a', 1));
    await maps.refresh(); // before the first list: the list suffices
    expect(names(maps.list())).toEqual(['a']);
    deafen();
    await api.client().create(configMaps, { metadata: { namespace: 'd', name: 'b' } });
    api.remove(configMaps, { namespace: 'd', name: 'a' });
    await clock.settle();
    expect(names(maps.list())).toEqual(['a']);
    await Promise.all([maps.refresh(), maps.refresh()]);
    expect(names(maps.list())).toEqual(['b']);
    expect(events.map((each) => each.split('@')[0])).toEqual(['added a', 'added b', 'deleted a']);
    // the watch continues from there
    await api.client().create(configMaps, { metadata: { namespace: 'd', name: 'c' } });
    await clock.settle();
    expect(names(maps.list())).toEqual(['b', 'c']);
    expect(api.requests.filter(({ verb }) => verb === 'watch')).toHaveLength(2);
    await informers.stop();
    await maps.refresh(); // no further list
    expect(clock.pending).toBe(0);
  });

  it('ends a refresh when the server rejects the list, and when all callers aborted', async () => {
    const clock = new FakeClock();
    const api = memoryApi({ clock });
    const { client, stallWatches: deafen } = stalledClient(api.client());
    const informers = new SharedInformerFactory({ client, clock, random: sequence(1) });
    const maps = informers.forResource(configMaps);
    informers.start();
    await maps.whenSynced();
    deafen();
    await api.client().create(configMaps, { metadata: { namespace: 'd', name: 'a' } });
    api.failNext({ verb: 'watch', resource: configMaps }, failure('Forbidden', 'no'));
    api.failNext({ verb: 'list', resource: configMaps }, failure('Forbidden', 'no'));
    await maps.refresh();
    expect(maps.size).toBe(0);
    await clock.runUntil(() => maps.size === 1, { within: 60_000 });
    api.failNext({ verb: 'watch', resource: configMaps }, failure('ServiceUnavailable', 'later'), 2);
    api.failNext({ verb: 'list', resource: configMaps }, failure('ServiceUnavailable', 'later'), 2);
    const abort = new AbortController();
    const unwanted = maps.refresh(abort.signal);
    const wanted = maps.refresh();
    abort.abort(new Error('enough'));
    await expect(unwanted).rejects.toThrow('enough');
    await expect(maps.refresh(abort.signal)).rejects.toThrow('enough');
    let done = false;
    void wanted.then(() => {
      done = true;
    });
    await clock.runUntil(() => done, { within: 60_000 });
    await informers.stop();
  });

  it("converges to the server's state, and notifies every difference, despite connection failures", async () => {
    const step = fc.record({
      op: fc.constantFrom('put', 'delete', 'drop', 'compact', 'bookmark', 'pass'),
      name: fc.constantFrom('a', 'b', 'c', 'd'),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.boolean(), async (steps, streamInitialList) => {
        const clock = new FakeClock();
        const api = memoryApi({ clock });
        const client = api.client();
        const faults: unknown[] = [];
        const log: Logger = {
          ...silentLogger,
          error: ({ err }) => {
            faults.push(err);
          },
          child: () => log,
        };
        const informers = new SharedInformerFactory({ client, clock, random: sequence(7), streamInitialList, log });
        informers.start();
        const informer = informers.forResource(configMaps);
        const mirror = new Map<string, KubeObject>();
        informer.addEventHandler({
          onAdd(o) {
            expect(mirror.has(o.metadata?.name ?? '')).toBe(false);
            mirror.set(o.metadata?.name ?? '', o);
          },
          onUpdate(o, old) {
            const known = mirror.get(o.metadata?.name ?? '');
            expect(known?.metadata?.resourceVersion).toBe(old.metadata?.resourceVersion);
            expect(known?.metadata?.uid).toBe(o.metadata?.uid);
            mirror.set(o.metadata?.name ?? '', o);
          },
          onDelete(o) {
            expect(mirror.delete(o.metadata?.name ?? '')).toBe(true);
          },
        });
        let n = 0;
        for (const { op, name } of steps) {
          const where = { namespace: 'd', name };
          const there = api.object(configMaps, where) !== undefined;
          if (op === 'put')
            await (there
              ? client.patch(configMaps, where, 'merge', { data: { n: String((n += 1)) } })
              : client.create(configMaps, { metadata: where }));
          if (op === 'delete' && there) await client.delete(configMaps, where);
          if (op === 'drop') api.dropWatches();
          if (op === 'compact') api.compact();
          if (op === 'bookmark') api.bookmark(configMaps);
          if (op === 'pass') await clock.advance(700);
        }
        await clock.advance(120_000);
        const expected = api.objects(configMaps);
        expect(faults).toEqual([]);
        expect(new Set(informer.list())).toEqual(new Set(expected));
        expect(new Set(mirror.values())).toEqual(new Set(expected));
        await informers.stop();
      }),
      { numRuns: 60 },
    );
  });
});
