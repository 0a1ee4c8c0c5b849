import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { LocalConnection } from '../../../src/server/http/local-connection.ts';

/** Reads to the end and leaves the other direction open. */
async function all(end: LocalConnection): Promise<string> {
  let read = '';
  end.setEncoding('utf8').on('data', (chunk: string) => {
    read += chunk;
  });
  await once(end, 'end');
  return read;
}

describe('LocalConnection', () => {
  it('carries data in both directions, which end separately', async () => {
    const [near, far] = LocalConnection.pair();
    near.end('to the far end');
    expect(await all(far)).toBe('to the far end');
    expect(far.writable).toBe(true);
    far.write('and ');
    far.end('back');
    expect(await all(near)).toBe('and back');
    await Promise.all([near, far].map((end) => (end.closed ? undefined : once(end, 'close'))));
  });

  it('applies back-pressure', async () => {
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

  it('drains when buffered data was read', async () => {
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

  it('delivers sent data after the sender is destroyed, and then ends', async () => {
    const [near, far] = LocalConnection.pair();
    near.write('last words');
    near.destroy();
    expect(await text(far)).toBe('last words');
    if (!far.closed) await once(far, 'close');
  });

  it('ends at the server after the client is destroyed, even if nothing reads there', async () => {
    const [near, far] = LocalConnection.pair(20);
    near.write(Buffer.alloc(1024 * 1024), () => undefined);
    near.destroy();
    far.pause();
    await once(far, 'close');
    expect(far.readableEnded).toBe(false);
  });

  it('fails writes to a destroyed end', async () => {
    const [near, far] = LocalConnection.pair();
    far.on('error', () => undefined);
    near.destroy();
    const error = await new Promise<NodeJS.ErrnoException | null | undefined>((resolve) => {
      far.write('to a closed end', resolve);
    });
    expect(error?.code).toBe('EPIPE');
  });

  it('fails a pending write when the reader is destroyed', async () => {
    const [near, far] = LocalConnection.pair();
    near.on('error', () => undefined);
    const callbackError = new Promise<NodeJS.ErrnoException | null | undefined>((resolve) => {
      near.write(Buffer.alloc(1024 * 1024), resolve);
    });
    far.destroy();
    expect((await callbackError)?.code).toBe('EPIPE');
    if (!near.closed) await once(near, 'close');
  });

  it('works with HTTP servers and clients', async () => {
    const server = createServer((clientRequest, response) => {
      clientRequest.resume();
      response.end(`${clientRequest.method} ${clientRequest.url}`);
    });
    const [near, far] = LocalConnection.pair();
    server.emit('connection', far);
    const clientRequest = request({ path: '/a', method: 'POST', createConnection: () => near });
    clientRequest.end('body');
    const [response] = (await once(clientRequest, 'response')) as [NodeJS.ReadableStream];
    expect(await text(response)).toBe('POST /a');
    await Promise.all([near, far].map((end) => (end.closed ? undefined : once(end, 'close'))));
  });
});
