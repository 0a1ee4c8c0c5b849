import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { Duplex, Readable, Writable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it } from 'vitest';
import { SpdyConnection, type SpdyOptions } from '../src/connection.ts';
import { dataHead, encodeFrame } from '../src/frames.ts';
import type { SpdyStream } from '../src/stream.ts';

const opened: { destroy(): void }[] = [];
afterEach(() => {
  for (const one of opened.splice(0)) one.destroy();
});

async function sockets(): Promise<[Socket, Socket]> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const near = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [far] = (await once(server, 'connection')) as [Socket];
  server.close();
  opened.push(near, far);
  return [near, far];
}

async function pair(onStream: (stream: SpdyStream) => void, options: Partial<SpdyOptions> = {}) {
  const [near, far] = await sockets();
  const server = new SpdyConnection(far, { role: 'server', onStream, ...options });
  const client = new SpdyConnection(near, { role: 'client', ...options });
  return { client, server, near, far };
}

const readAll = async (stream: SpdyStream): Promise<Buffer> => {
  const chunks: Buffer[] = [];
  for await (const chunk of stream.iterator({ destroyOnReturn: false })) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
};
const sha = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

describe.each([{ flowControl: false }, { flowControl: true }])('a connection, $flowControl', (options) => {
  it('replies to streams with headers, and closes each half independently', async () => {
    const { client } = await pair((stream) => {
      stream.reply({ status: '200' });
      // reads to the end first: the reply needs the other half to be still open
      void readAll(stream).then((bytes) => {
        stream.end(`${stream.headers['streamtype']} had ${bytes.length}`);
      });
    }, options);
    const one = client.open({ streamType: 'stdin' });
    const two = client.open({ streamType: 'resize' });
    expect({ ...(await one.replied) }).toEqual({ status: '200' });
    one.end('twelve bytes');
    two.end();
    expect((await readAll(one)).toString()).toBe('stdin had 12');
    expect((await readAll(two)).toString()).toBe('resize had 0');
    expect(one.ended).toBe('fin');
  });

  it('completes an empty write immediately', async () => {
    const { client } = await pair((stream) => {
      stream.reply();
      stream.end('');
    }, options);
    const stream = client.open({ streamType: 'error' });
    await new Promise((resolve) => {
      stream.write('', resolve);
    });
    stream.end('');
    expect((await readAll(stream)).length).toBe(0);
  });

  it('transfers much data in both directions on several streams, unchanged', async () => {
    const { client } = await pair((stream) => {
      stream.reply();
      stream.pipe(stream);
    }, options);
    const blocks = Array.from({ length: 4 }, () => randomBytes(5 * 1024 * 1024));
    const echoes = await Promise.all(
      blocks.map((block) => {
        const stream = client.open({ streamType: 'data' });
        stream.end(block);
        return readAll(stream);
      }),
    );
    expect(echoes.map(sha)).toEqual(blocks.map(sha));
  });

  it('completes a write before it is sent, while little is buffered', async () => {
    const { client, near } = await pair((stream) => stream.reply(), options);
    const stream = client.open({ streamType: 'data' });
    await stream.replied;
    const pieces = Array.from({ length: 4 }, () => Buffer.alloc(1024));
    await Promise.all(
      pieces.map(
        (piece) =>
          new Promise((resolve) => {
            stream.write(piece, resolve);
          }),
      ),
    );
    expect(near.writableLength).toBeGreaterThan(4096);
  });

  it('does not send faster than a blocked consumer allows', async () => {
    let held: (() => void) | undefined;
    let received = 0;
    const { client, near } = await pair((stream) => {
      stream.reply();
      stream.pipe(
        new Writable({
          highWaterMark: 1,
          write(chunk: Buffer, _encoding, done) {
            received += chunk.length;
            held = done;
          },
        }),
      );
    }, options);
    const stream = client.open({ streamType: 'data' });
    const total = 64 * 1024 * 1024;
    const block = Buffer.alloc(64 * 1024);
    const bytesSent = (async () => {
      for (let sent = 0; sent < total; sent += block.length)
        await new Promise((resolve) => {
          stream.write(block, resolve);
        });
      stream.end();
    })();
    // sends until no byte moves any more
    for (let before = -1; near.bytesWritten !== before; ) {
      before = near.bytesWritten;
      for (let round = 0; round < 200; round++) await turn();
    }
    expect(near.bytesWritten).toBeLessThan(16 * 1024 * 1024);
    // then the consumer reads everything
    while (received < total) {
      held?.();
      held = undefined;
      await turn();
    }
    held?.();
    await bytesSent;
    expect(received).toBe(total);
  });

  it('delivers data that arrived before a reset', async () => {
    const { client } = await pair((stream) => {
      stream.reply();
      stream.write('the last data', () => stream.reset());
    }, options);
    const stream = client.open({ streamType: 'data' });
    expect((await readAll(stream)).toString()).toBe('the last data');
    expect(stream.ended).toBe('reset');
    expect(stream.resetStatus).toBe(5);
    expect(stream.destroyed).toBe(true);
  });

  it('stops an endless source when the peer has reset the stream', async () => {
    const { client } = await pair((stream) => {
      stream.reply();
      stream.once('data', () => stream.reset());
    }, options);
    const stream = client.open({ streamType: 'stdin' });
    const block = Buffer.alloc(64 * 1024);
    const endless = new Readable({
      read() {
        this.push(block);
      },
    });
    endless.pipe(stream);
    stream.resume();
    await once(stream, 'close');
    await client.ping();
    expect(endless.readableFlowing).toBe(false);
    endless.destroy();
  });

  it('ends all streams when the peer disconnects', async () => {
    const { client, far } = await pair((stream) => {
      stream.reply();
      stream.write('half a');
    }, options);
    const stream = client.open({ streamType: 'data' });
    stream.once('readable', () => far.destroy());
    expect((await readAll(stream)).toString()).toBe('half a');
    expect(stream.ended).toBe('cut');
    await client.closed;
    expect(() => client.open({})).toThrow(/is closed/);
    await expect(client.ping()).rejects.toMatchObject({ code: 'Closed' });
  });

  it('flushes pending writes before it closes', async () => {
    let seen: Promise<Buffer> | undefined;
    const { client, server } = await pair((stream) => {
      stream.reply();
      seen = readAll(stream);
    }, options);
    const stream = client.open({ streamType: 'data' });
    stream.end(Buffer.alloc(1024, 'x'));
    await client.close();
    await server.closed;
    expect((await seen)?.length).toBe(1024);
  });
});

describe('connection', () => {
  it('answers pings, and pings', async () => {
    const { client, server } = await pair(() => {});
    await Promise.all([client.ping(), client.ping(), server.ping()]);
  });

  it('rejects streams without a handler, and streams over the limit', async () => {
    const [near, far] = await sockets();
    const server = new SpdyConnection(far, { role: 'server' });
    const client = new SpdyConnection(near, { role: 'client' });
    const stream = client.open({});
    stream.on('error', () => {});
    await expect(stream.replied).rejects.toMatchObject({ code: 'Reset', status: 3 });
    await server.close();

    const { client: other } = await pair((one) => one.reply(), { maxStreams: 2 });
    const streams = [other.open({}), other.open({}), other.open({})];
    const answers = await Promise.allSettled(streams.map((one) => one.replied));
    expect(answers.map((answer) => answer.status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
  });

  it('reads the last data of a peer that disconnected, even if writes fail', async () => {
    const shared = new Int32Array(new SharedArrayBuffer(4));
    // answers the first frame, then waits for a signal to send its last data and disconnect; it does so while this thread is blocked
    const peer = new Worker(
      `
      const { workerData, parentPort } = require('node:worker_threads');
      const server = require('node:net').createServer((socket) => {
        socket.on('error', () => {});
        socket.once('data', () => {
          Atomics.wait(workerData.shared, 0, 0);
          socket.write(Buffer.from(workerData.words), () => { socket.destroy(); server.close(); Atomics.store(workerData.shared, 0, 2); Atomics.notify(workerData.shared, 0); });
        });
      }).listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
    `,
      { eval: true, workerData: { shared, words: Buffer.concat([dataHead(1, 5, true), Buffer.from('words')]) } },
    );
    const exited = once(peer, 'exit');
    const [port] = (await once(peer, 'message')) as [number];
    const socket = connect(port, '127.0.0.1');
    opened.push(socket);
    await once(socket, 'connect');
    const client = new SpdyConnection(socket, { role: 'client' });
    const stream = client.open({});
    const read = readAll(stream);
    await turn();
    await turn();
    Atomics.store(shared, 0, 1);
    Atomics.notify(shared, 0);
    Atomics.wait(shared, 0, 1);
    for (let round = 0; round < 20; round++)
      client
        .open({})
        .on('error', () => {})
        .write('a write after the end');
    expect((await read).toString()).toBe('words');
    await client.closed;
    await exited;
  });

  it('respects the window of the peer', async () => {
    const [near, far] = await sockets();
    const client = new SpdyConnection(near, { role: 'client', flowControl: true });
    let bytes = 0;
    far.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    const stream = client.open({});
    stream.write(Buffer.alloc(1024 * 1024));
    const sent = async () => {
      for (let before = -1; before !== bytes; ) {
        before = bytes;
        for (let round = 0; round < 100; round++) await turn();
      }
      return bytes;
    };
    const window = 64 * 1024;
    expect(await sent()).toBeLessThan(window + 1024);
    far.write(
      Buffer.concat([
        encodeFrame({ type: 'windowUpdate', stream: 1, delta: window }),
        encodeFrame({ type: 'windowUpdate', stream: 0, delta: window }),
      ]),
    );
    expect(await sent()).toBeGreaterThan(2 * window);
    expect(bytes).toBeLessThan(2 * window + 1024);
  });

  it('ends when the peer exceeds its window', async () => {
    const [near, far] = await sockets();
    const server = new SpdyConnection(far, {
      role: 'server',
      flowControl: true,
      highWaterMark: 1024,
      onStream: (stream) => {
        stream.reply();
        stream.on('error', () => {});
      },
    });
    const client = new SpdyConnection(near, { role: 'client' });
    const stream = client.open({});
    stream.on('error', () => {});
    await stream.replied;
    stream.write(Buffer.alloc(65 * 1024));
    await Promise.all([client.closed, server.closed]);
    expect(stream.ended).toBe('cut');
  });

  it('ends when the peer violates the protocol', async () => {
    const [near, far] = await sockets();
    const client = new SpdyConnection(near, { role: 'client', onStream: (stream) => stream.reply() });
    const stream = client.open({});
    const failed = once(stream, 'error');
    far.resume();
    far.write(Buffer.from('800200060000000400000001', 'hex'));
    await client.closed;
    await Promise.race([failed, once(stream, 'close')]);
    expect(stream.destroyed).toBe(true);
  });
});

it('a stream that nothing listens to yet ends with its connection', async () => {
  const { client, server } = await pair(() => {
    throw new Error('not accepted');
  });
  const stream = client.open({ a: 'b' });
  await Promise.all([client.closed, server.closed]);
  expect(stream.ended).toBe('cut');
});

it('a connection closes whose last write fails after the peer has closed', async () => {
  let fail: (error: Error) => void = () => undefined;
  const socket = new Duplex({
    read: () => undefined,
    write: (_chunk, _encoding, done) => {
      fail = done;
    },
  });
  const connection = new SpdyConnection(socket, { role: 'client' });
  connection.open({ a: 'b' });
  await turn();
  socket.push(null);
  await once(socket, 'end');
  fail(new Error('EPIPE'));
  await connection.closed;
});
