import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { LocalConnection } from '../src/server/local-connection.ts';

/** Reads to the end, and leaves the other half open. */
async function all(end: LocalConnection): Promise<string> {
  let read = '';
  end.setEncoding('utf8').on('data', (chunk: string) => {
    read += chunk;
  });
  await once(end, 'end');
  return read;
}

describe('a connection within the process', () => {
  it('carries bytes both ways, and each way ends by itself', async () => {
    const [near, far] = LocalConnection.pair();
    near.end('to the far end');
    expect(await all(far)).toBe('to the far end');
    expect(far.writable).toBe(true);
    far.write('and ');
    far.end('back');
    expect(await all(near)).toBe('and back');
    await Promise.all([near, far].map((end) => (end.closed ? undefined : once(end, 'close'))));
  });

  it('takes no more than somebody reads', async () => {
    const [near, far] = LocalConnection.pair();
    const chunk = Buffer.alloc(64 * 1024);
    let wrote = 0;
    while (near.write(chunk)) wrote += chunk.length;
    const most = near.writableHighWaterMark + far.readableHighWaterMark + chunk.length;
    expect(wrote).toBeLessThanOrEqual(most);
    expect(far.readableLength).toBeLessThanOrEqual(far.readableHighWaterMark + chunk.length);
    let read = 0;
    far.on('data', (bytes: Buffer) => {
      read += bytes.length;
    });
    near.end();
    await once(far, 'end');
    expect(read).toBe(wrote + chunk.length);
    far.destroy();
    near.destroy();
  });

  it('asks for more when what waited was read', async () => {
    const [near, far] = LocalConnection.pair();
    const chunk = Buffer.alloc(256 * 1024);
    let turns = 0;
    while (turns < 20) {
      turns += 1;
      if (!near.write(chunk)) {
        far.resume();
        await once(near, 'drain');
        far.pause();
      }
    }
    expect(turns).toBe(20);
    far.destroy();
    near.destroy();
  });

  it('lets what was sent be read when the sender is gone, and then ends', async () => {
    const [near, far] = LocalConnection.pair();
    near.write('last words');
    near.destroy();
    expect(await text(far)).toBe('last words');
    if (!far.closed) await once(far, 'close');
  });

  it('ends at the server when the client is gone, though nobody reads there', async () => {
    const [near, far] = LocalConnection.pair(20);
    near.write(Buffer.alloc(1024 * 1024), () => undefined);
    near.destroy();
    far.pause();
    await once(far, 'close');
    expect(far.readableEnded).toBe(false);
  });

  it('fails what is written to who is gone', async () => {
    const [near, far] = LocalConnection.pair();
    far.on('error', () => undefined);
    near.destroy();
    const error = await new Promise<NodeJS.ErrnoException | null | undefined>((resolve) => {
      far.write('to nobody', resolve);
    });
    expect(error?.code).toBe('EPIPE');
  });

  it('fails a write that waits for a reader who goes', async () => {
    const [near, far] = LocalConnection.pair();
    near.on('error', () => undefined);
    const written = new Promise<NodeJS.ErrnoException | null | undefined>((resolve) => {
      near.write(Buffer.alloc(1024 * 1024), resolve);
    });
    far.destroy();
    expect((await written)?.code).toBe('EPIPE');
    if (!near.closed) await once(near, 'close');
  });

  it('is taken by servers and clients of HTTP', async () => {
    const server = createServer((asked, response) => {
      asked.resume();
      response.end(`${asked.method} ${asked.url}`);
    });
    const [near, far] = LocalConnection.pair();
    server.emit('connection', far);
    const asked = request({ path: '/a', method: 'POST', createConnection: () => near });
    asked.end('body');
    const [response] = (await once(asked, 'response')) as [NodeJS.ReadableStream];
    expect(await text(response)).toBe('POST /a');
    await Promise.all([near, far].map((end) => (end.closed ? undefined : once(end, 'close'))));
  });
});
