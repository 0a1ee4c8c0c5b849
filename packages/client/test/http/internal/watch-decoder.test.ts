import { decodeWatchEvents } from '@oarlock/client/http/internal/watch-decoder';
import type { WatchEvent } from '@oarlock/spi/client';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

const line = (name: string, more: object = {}) => `${JSON.stringify({ type: 'ADDED', object: { metadata: { name } }, ...more })}\n`;
async function* chunks(...parts: (string | Buffer)[]) {
  for (const part of parts) yield Buffer.from(part);
}
async function read(body: AsyncIterable<Buffer>, maxFrameBytes = 1000): Promise<(readonly WatchEvent[])[]> {
  const batches: (readonly WatchEvent[])[] = [];
  for await (const batch of decodeWatchEvents(body, { maxFrameBytes })) batches.push(batch);
  return batches;
}

describe('watchFrames', () => {
  it('batches events that arrive together, in order', async () => {
    const names = Array.from({ length: 100 }, (_, n) => `o${n}`);
    const batches = await read(chunks(names.map((name) => line(name)).join(''), `\n${line('last')}`));
    expect(batches.flat().map(({ object }) => object.metadata?.name)).toEqual([...names, 'last']);
    // two; a busy machine decodes in several turns of the event loop, but a batch per event would be one for each
    expect(batches.length).toBeLessThan(names.length);
    expect(Object.isFrozen(batches[0]?.[0]?.object.metadata)).toBe(true);
  });

  it('decodes the same events for any segmentation of the stream', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ unit: 'grapheme', maxLength: 10 }), { maxLength: 8 }),
        fc.array(fc.nat(400), { maxLength: 10 }),
        async (names, cuts) => {
          const whole = Buffer.from(names.map((name) => line(name)).join(''));
          const at = [0, ...cuts.map((cut) => cut % (whole.length + 1)).sort((a, b) => a - b), whole.length];
          const parts = at.slice(1).map((end, n) => whole.subarray(at[n], end));
          expect((await read(chunks(...parts))).flat().map(({ object }) => object.metadata?.name)).toEqual(names);
        },
      ),
    );
  });

  it('drops null values where they have no meaning', async () => {
    const text = line('a', { object: { metadata: { name: 'a', labels: null }, rules: [{ verbs: null, names: ['null', ':null'] }] } });
    const objects = async (ignoreNulls: boolean) => {
      const found: unknown[] = [];
      for await (const batch of decodeWatchEvents(chunks(text), { maxFrameBytes: 1000, ignoreNulls }))
        for (const { object } of batch) found.push(object);
      return found;
    };
    expect(await objects(true)).toEqual([{ metadata: { name: 'a' }, rules: [{ names: ['null', ':null'] }] }]);
    expect(await objects(false)).toEqual([{ metadata: { name: 'a', labels: null }, rules: [{ verbs: null, names: ['null', ':null'] }] }]);
  });

  it('decodes span contexts and ignores invalid ones', async () => {
    const events = (
      await read(chunks(line('a', { cause: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' }) + line('b', { cause: 'x' })))
    ).flat();
    expect(events.map(({ spanContext }) => spanContext?.spanId)).toEqual(['b7ad6b7169203331', undefined]);
  });

  it('returns the events before an ERROR event, then throws its Status', async () => {
    const frames = decodeWatchEvents(
      chunks(`${line('a')}{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410,"message":"too old"}}\n`),
      { maxFrameBytes: 1000 },
    );
    expect((await frames.next()).value).toHaveLength(1);
    await expect(frames.next()).rejects.toMatchObject({ name: 'StatusError', reason: 'Expired', code: 410 });
  });

  it('drops a truncated line', async () => {
    expect(await read(chunks(line('a'), line('b').slice(0, 20)))).toHaveLength(1);
  });

  it('rejects lines that are too long or invalid', async () => {
    await expect(read(chunks('{"type":', 'x'.repeat(900), 'x'.repeat(900)))).rejects.toMatchObject({ code: 'TooLarge' });
    await expect(read(chunks('{"type"\n'))).rejects.toMatchObject({ code: 'Malformed' });
    await expect(read(chunks('7\n'))).rejects.toMatchObject({ code: 'Malformed' });
    await expect(read(chunks('{"type":"ODD","object":{}}\n'))).rejects.toMatchObject({ code: 'Malformed' });
    await expect(read(chunks('{"type":"ADDED"}\n'))).rejects.toMatchObject({ code: 'Malformed' });
  });

  it('yields to the event loop during a long chunk', async () => {
    const body = Array.from({ length: 20_000 }, (_, n) => line(`object-${n}`, { padding: 'x'.repeat(200) })).join('');
    let turns = 0;
    let running = true;
    const tick = () => {
      turns += 1;
      if (running) setImmediate(tick);
    };
    setImmediate(tick);
    const batches = await read(chunks(body));
    running = false;
    expect(batches.flat()).toHaveLength(20_000);
    expect(turns).toBeGreaterThan(2);
  });
});
