import { describe, expect, it } from 'vitest';
import { readItems } from '../../src/api/streamed-items.ts';

const bytesOf = (text: string) => new TextEncoder().encode(text);

/** Returns a response that arrives in parts of this number of bytes. */
const inParts = (text: string, size: number) => {
  const bytes = bytesOf(text);
  return {
    body: new ReadableStream<Uint8Array<ArrayBuffer>>({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
        controller.close();
      },
    }),
  };
};

async function read(text: string, size: number) {
  const items: unknown[] = [];
  const document = await readItems(inParts(text, size), { field: 'rows', onItem: (item) => void items.push(item), pause: () => undefined });
  return { items, document };
}

const rows = [
  { cells: ['a"b', 'c\\', '}]', '{[', '\u00e9\u{1f600}', null, 3, true], object: { metadata: { name: 'x', labels: { rows: '[' } } } },
  { cells: [], object: { rows: [{ rows: [] }] } },
  {},
];
const table = {
  kind: 'Table',
  metadata: { rows: [{ not: 'a row' }], continue: '"rows":[' },
  columnDefinitions: [{ name: 'rows' }],
  'x"rows': [{}],
  rows,
  last: [{}],
};

describe('readItems', () => {
  it.each([1, 2, 3, 7, 64, 100_000])('reads the items of the document in parts of %i bytes', async (size) => {
    for (const indent of [0, 2])
      expect(await read(JSON.stringify(table, undefined, indent), size)).toEqual({ items: rows, document: { ...table, rows: [] } });
  });

  it.each(['{"rows":[]}', '{"rows": null, "a": 1}', '{"rows":{"a":{"b":1}}}', '{"kind":"Status"}'])(
    'reads %s, which has no items',
    async (text) => {
      expect(await read(text, 3)).toEqual({ items: [], document: JSON.parse(text) });
    },
  );

  it.each([JSON.stringify(table).slice(0, -1), '{"rows":[{"a":1},{"b"', '{"rows":[{"a":1}', ''])(
    'rejects the incomplete document %s',
    async (text) => {
      await expect(read(text, 5)).rejects.toThrow(SyntaxError);
    },
  );

  it('gives each item as soon as it is complete, and pauses after each part', async () => {
    const steps: unknown[] = [];
    const onItem = (item: unknown) => void steps.push(item);
    const pause = async () => void steps.push('pause');
    await readItems(inParts('{"rows":[{"a":1},{"a":2}]}', 17), { field: 'rows', onItem, pause });
    expect(steps).toEqual([{ a: 1 }, 'pause', { a: 2 }, 'pause']);
  });

  it('fails if the connection fails', async () => {
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({ start: (controller) => controller.error(new TypeError('network error')) });
    await expect(readItems({ body }, { field: 'rows', onItem: () => undefined, pause: () => undefined })).rejects.toThrow('network error');
  });
});
