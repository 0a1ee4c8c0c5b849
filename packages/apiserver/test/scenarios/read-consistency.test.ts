import { expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import { StatusError } from '@oarlock/api/status';
import type { WatchFrame } from '../../src/endpoints/request/response.ts';
import { configMap, seededRandom, settlePromises, TestServer } from '../support/pipeline-fixture.ts';

const allowed = new Set(['NotFound', 'AlreadyExists', 'Conflict']);
const selected = (object: KubeObject) => object.metadata?.labels?.['on'] === 'yes';

/** The state of a reader that applies every event. */
class Reader {
  readonly state = new Map<string, KubeObject>();
  readonly faults: string[] = [];
  #revision = 0;
  readonly done: Promise<void>;

  constructor(frames: AsyncIterable<readonly WatchFrame[]>) {
    this.done = (async () => {
      for await (const batch of frames) for (const frame of batch) this.#take(frame);
    })();
  }

  #take({ type, item: { object, revision } }: WatchFrame): void {
    const name = object.metadata?.name ?? '';
    const known = this.state.has(name);
    if (revision <= this.#revision) this.faults.push(`${type} ${name}: revision ${revision} after ${this.#revision}`);
    if (String(revision) !== object.metadata?.resourceVersion) this.faults.push(`${type} ${name}: the object has another revision`);
    this.#revision = revision;
    if ((type === 'ADDED') === known) this.faults.push(`${type} ${name} although ${known ? 'known' : 'unknown'}`);
    if (type === 'DELETED') this.state.delete(name);
    else this.state.set(name, object);
  }
}

it.each([1, 2, 3])('every watch sends a consistent sequence of events, whatever clients of two servers do (seed %i)', async (seed) => {
  const { next } = seededRandom(seed);
  const pick = (count: number) => Math.floor(next() * count);
  const one = await TestServer.start({ random: seededRandom(seed) });
  const two = await TestServer.start({ storage: one.storage, random: seededRandom(seed + 100) });
  const abort = new AbortController();
  const readers: { readonly reader: Reader; readonly wanted: (object: KubeObject) => boolean }[] = [];
  const read = async (server: TestServer, query: Record<string, string>, wanted: (object: KubeObject) => boolean) => {
    const response = await server.handle('watch', 'configmaps', { namespace: 'default', query, signal: abort.signal });
    if (response.kind === 'watch') readers.push({ reader: new Reader(response.frames), wanted });
  };
  for (const server of [one, two]) {
    await read(server, {}, () => true);
    await read(server, { labelSelector: 'on=yes' }, selected);
    await read(server, { fieldSelector: 'metadata.name=c3' }, ({ metadata }) => metadata?.name === 'c3');
  }
  const step = async () => {
    const server = pick(2) === 0 ? one : two;
    const name = `c${pick(6)}`;
    const body = configMap(name, { value: String(pick(5)) }, { labels: { on: pick(2) === 0 ? 'yes' : 'no' } });
    try {
      switch (pick(6)) {
        case 0:
          await server.create('configmaps', body);
          break;
        case 1:
          await server.update('configmaps', body);
          break;
        case 2: {
          const current = await server.get('configmaps', name);
          await server.update('configmaps', { ...current, metadata: { ...current.metadata, labels: { on: 'yes' } } });
          break;
        }
        case 3:
          await server.patch('configmaps', name, {
            metadata: { labels: { on: pick(2) === 0 ? 'yes' : null } },
            data: { more: String(pick(9)) },
          });
          break;
        case 4:
          await server.remove('configmaps', name);
          break;
        default: {
          const { names, metadata } = await server.list('configmaps');
          expect(names).toEqual([...names].sort());
          if (pick(4) === 0)
            await read(server, { resourceVersion: metadata.resourceVersion ?? '', labelSelector: 'never=there' }, () => false);
        }
      }
    } catch (error) {
      if (!(error instanceof StatusError) || !allowed.has(error.reason)) throw error;
    }
  };
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let i = 0; i < 60; i++) await step();
    }),
  );
  const final = await one.list('configmaps');
  expect((await two.list('configmaps')).items.map(({ object }) => object)).toEqual(final.items.map(({ object }) => object));
  await settlePromises();
  abort.abort();
  for (const { reader, wanted } of readers) {
    await reader.done;
    expect(reader.faults).toEqual([]);
    expect([...reader.state.values()].sort((a, b) => ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1))).toEqual(
      final.items.map(({ object }) => object).filter(wanted),
    );
  }
  await Promise.all([one.stop(), two.stop()]);
});
