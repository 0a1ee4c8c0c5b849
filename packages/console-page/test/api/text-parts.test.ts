import { describe, expect, it } from 'vitest';
import { textPartsOf } from '../../src/api/text-parts.ts';

const bytesOf = (text: string) => new TextEncoder().encode(text);

/** Returns a stream of bytes as browsers have it for a response, and the sizes of the memory that its reader offers for each part. */
function byteStream(parts: readonly string[]) {
  const offered: (number | undefined)[] = [];
  const left = parts.map(bytesOf);
  const body: ReadableStream = new ReadableStream({
    type: 'bytes',
    pull(controller) {
      const request = controller.byobRequest;
      offered.push(request?.view?.buffer.byteLength);
      const part = left.shift();
      if (part === undefined) {
        controller.close();
        request?.respond(0);
      } else if (request?.view) {
        new Uint8Array(request.view.buffer).set(part);
        request.respond(part.length);
      } else controller.enqueue(part);
    },
  });
  return { body, offered };
}

async function read(body: ReadableStream<Uint8Array<ArrayBuffer>>, withoutManagedFields = false): Promise<readonly string[]> {
  const texts: string[] = [];
  for await (const text of textPartsOf(body, { withoutManagedFields })) texts.push(text);
  return texts;
}

describe('textPartsOf', () => {
  it('reads all parts of a stream of bytes into one memory', async () => {
    const { body, offered } = byteStream(['{"a":', '"\u00e9"}', '\n']);
    expect(await read(body)).toEqual(['{"a":', '"\u00e9"}', '\n']);
    expect(offered).toEqual([65_536, 65_536, 65_536, 65_536]);
  });

  it('leaves managed fields out that begin and end in different parts', async () => {
    const { body } = byteStream(['{"managedFie', 'lds":[{"a":', '1}],"b":2}']);
    expect((await read(body, true)).join('')).toBe('{"managedFields":[],"b":2}');
  });

  it('reads a stream of other chunks, and rejects one that is read already', async () => {
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start(controller) {
        for (const text of ['a', 'b']) controller.enqueue(bytesOf(text));
        controller.close();
      },
    });
    expect(await read(body)).toEqual(['a', 'b']);
    await expect(read(body)).rejects.toThrow(TypeError);
  });
});
