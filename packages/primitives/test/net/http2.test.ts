import { once } from 'node:events';
import { constants, createServer as createHttp2Server, type Http2Session, type Http2Stream, type ServerHttp2Stream } from 'node:http2';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { closeHttp2Stream, connectHttp2, destroyHttp2, setReceiveWindow } from '../../src/net/http2.ts';

const frame = (type: number, { flags = 0, stream = 0, payload = Buffer.alloc(0) }): Buffer => {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
};
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const settings = Buffer.concat([frame(4, {}), frame(4, { flags: 1 })]);
const reset = (stream: number) => frame(3, { stream, payload: Buffer.from([0, 0, 0, constants.NGHTTP2_CANCEL]) });
/** HEADERS of `GET http://a/`. */
const request = (stream: number) => frame(1, { flags: 5, stream, payload: Buffer.from([0x82, 0x84, 0x86, 0x41, 1, 0x61]) });

/** The streams of the HEADERS frames that a client has sent. */
function streamsOf(bytes: Buffer): number[] {
  const streams: number[] = [];
  for (let at = preface.length; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3))
    if (bytes[at + 3] === 1) streams.push(bytes.readUInt32BE(at + 5));
  return streams;
}

type Ends = readonly (readonly [string, (session: Http2Session, other: Http2Stream) => void])[];
/** What a listener does when the peer has reset one of two streams. Without the deferral, each hangs the process. */
const ends: Ends = [
  ['destroys the session', (session) => destroyHttp2(session)],
  ['destroys the session with an error', (session) => destroyHttp2(session, new Error('lost'))],
  ['destroys the other stream', (_, other) => destroyHttp2(other, new Error('lost'))],
  ['closes the other stream', (_, other) => closeHttp2Stream(other, constants.NGHTTP2_NO_ERROR)],
];

describe('a listener of a stream that the peer reset', () => {
  const undo: (() => void)[] = [];
  afterEach(() => {
    for (const step of undo.splice(0)) step();
  });
  const listen = async (server: Server): Promise<number> => {
    server.listen(0, '127.0.0.1');
    undo.push(() => server.close());
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  };
  const ignoreErrors = <T extends Http2Session | Http2Stream | Socket>(emitter: T): T => emitter.on('error', () => undefined) as T;

  it.each(ends)('%s of a client', async (_, end) => {
    const peer = createServer((socket) => {
      ignoreErrors(socket);
      undo.push(() => socket.destroy());
      socket.write(settings);
      let received = Buffer.alloc(0);
      socket.on('data', (chunk: Buffer) => {
        received = Buffer.concat([received, chunk]);
        if (streamsOf(received).includes(3)) socket.write(reset(1));
      });
    });
    const session = connectHttp2(`http://127.0.0.1:${await listen(peer)}`);
    ignoreErrors(session);
    undo.push(() => session.destroy());
    await once(session, 'connect');
    const [first, other] = [1, 2].map(() => session.request({ ':method': 'POST' }, { endStream: false }));
    if (first === undefined || other === undefined) throw new Error('no streams');
    for (const stream of [first, other]) ignoreErrors(stream);
    first.once('close', () => {
      end(session, other);
      expect(other.destroyed).toBe(false);
    });
    await once(other.resume(), 'close').catch(() => undefined); // rejects with the error of the stream
  });

  it.each(ends)('%s of a server', async (_, end) => {
    const server = createHttp2Server();
    const streams: Http2Stream[] = [];
    const closed = new Promise<void>((resolve) => {
      server.on('stream', (stream) => {
        ignoreErrors(stream);
        stream.respond({ ':status': 200 });
        stream.resume();
        streams.push(stream);
        const [first, other] = streams;
        if (first === undefined || other === undefined) return;
        other.once('close', resolve);
        first.once('close', () => {
          if (first.session) ignoreErrors(first.session);
          end(other.session as Http2Session, other);
          expect(other.destroyed).toBe(false);
        });
        client.write(reset(1));
      });
    });
    const client = connect(await listen(server as unknown as Server), '127.0.0.1');
    ignoreErrors(client).resume();
    undo.push(() => client.destroy());
    client.write(Buffer.concat([preface, settings.subarray(0, 9), request(1), request(3)]));
    await closed;
  });
});

it('sets the receive window of a session, but not of one that was destroyed before it was connected', async () => {
  const server = createHttp2Server().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const open = () => connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const session = open();
  await once(session, 'connect');
  setReceiveWindow(session, 1024 * 1024);
  expect(session.state.localWindowSize).toBe(1024 * 1024);
  session.destroy();
  const destroyed = open();
  const connected = once(destroyed, 'connect').then(() => setReceiveWindow(destroyed, 1024 * 1024));
  destroyed.destroy();
  await expect(connected).resolves.toBeUndefined();
  server.close();
});

it('connects sessions whose server must not push', async () => {
  const server = createHttp2Server().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const session = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { settings: { initialWindowSize: 1000 } });
  const request = session.request({ ':path': '/' }).on('error', () => undefined);
  const [stream] = (await once(server, 'stream')) as [ServerHttp2Stream];
  expect(stream.pushAllowed).toBe(false);
  expect(stream.session?.remoteSettings).toMatchObject({ enablePush: false, initialWindowSize: 1000 });
  request.close();
  session.destroy();
  server.close();
});
