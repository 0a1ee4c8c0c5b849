import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { createServer as createNetServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type Http2Server, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DevicePlugin } from '../../../src/container-manager/devices/device-plugin.ts';

/** Returns a message of gRPC. */
function framed(message: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}
const deviceList = (...ids: readonly string[]): Buffer =>
  Buffer.concat(
    ids.map((id) => Buffer.concat([Buffer.of(0x0a, id.length + 11, 0x0a, id.length), Buffer.from(id), Buffer.from('\x12\x07Healthy')])),
  );
const grpcHeaders = { ':status': 200, 'content-type': 'application/grpc' };

/** Answers with a message, and then either leaves the stream open or ends it with a status. */
const answer = (stream: ServerHttp2Stream, bytes: Buffer, end = true) => {
  stream.on('error', () => {});
  stream.respond(grpcHeaders, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
  stream.write(bytes);
  if (end) stream.end();
};

describe('a hostile device plugin', () => {
  let directory: string;
  let server: Http2Server;
  let plugin: DevicePlugin;
  const sessions = new Set<ServerHttp2Session>();
  let serve: (stream: ServerHttp2Stream) => void;

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'oarlock-device-'));
    server = createServer();
    server.on('session', (session) => {
      sessions.add(session);
      session.on('error', () => {});
      session.once('close', () => sessions.delete(session));
    });
    server.on('stream', (stream) => serve(stream));
    const socket = join(directory, 'device.sock');
    await new Promise<void>((resolve) => {
      server.listen(socket, resolve);
    });
    plugin = new DevicePlugin(socket, { version: 'v1beta1', endpoint: 'device.sock', resourceName: 'example.com/gadget' });
  });
  afterEach(async () => {
    plugin.stop();
    for (const session of sessions) session.destroy();
    await new Promise((resolve) => server.close(resolve));
    rmSync(directory, { recursive: true });
  });

  it.each([
    ['millions of devices', framed(Buffer.alloc(2_000_000, Buffer.of(0x0a, 0)))],
    ['a message above the limit', framed(Buffer.alloc(4 * 1024 * 1024 + 1))],
    ['bytes that are no message', framed(Buffer.alloc(1_000, 0xff))],
    ['a length of 4 GiB', Buffer.of(0, 0xff, 0xff, 0xff, 0xff, 1)],
    ['a compressed message', Buffer.of(1, 0, 0, 0, 1, 0)],
  ])('that lists %s ends its stream, and its devices are unhealthy', async (_, bytes) => {
    let changes = 0;
    serve = (stream) => {
      stream.on('error', () => {});
      stream.respond(grpcHeaders, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
      stream.write(framed(deviceList('first')));
      stream.end(bytes);
    };
    await expect(
      plugin.listAndWatch(() => {
        changes += 1;
      }),
    ).rejects.toBeInstanceOf(GrpcError);
    expect([...plugin.devices]).toEqual([['first', false]]);
    expect(changes).toBe(2);
  });

  it.each([
    ['an HTTP/1 server', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'],
    ['a server that ends the connection', ''],
  ])('whose socket is a link to that of %s has no devices', async (_title, answered) => {
    const received: Buffer[] = [];
    const other = createNetServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (bytes: Buffer) => received.push(bytes));
      socket.end(answered);
    });
    await new Promise<void>((resolve) => {
      other.listen(join(directory, 'other.sock'), resolve);
    });
    const link = join(directory, 'link.sock');
    symlinkSync('other.sock', link);
    const linked = new DevicePlugin(link, { version: 'v1beta1', endpoint: 'link.sock', resourceName: 'example.com/gadget' });
    await expect(linked.listAndWatch(() => {})).rejects.toBeInstanceOf(GrpcError);
    expect([...linked.devices]).toEqual([]);
    // what the other program receives is the call of the device plugin API, and nothing that the plugin chose
    expect(Buffer.concat(received).toString('latin1')).not.toContain('gadget');
    linked.stop();
    await new Promise((resolve) => other.close(resolve));
  });

  it('cannot take the place of a prototype with the id of a device', async () => {
    serve = (stream) => answer(stream, framed(deviceList('__proto__', 'constructor')));
    await plugin.listAndWatch(() => {});
    expect([...plugin.devices.keys()]).toEqual(['__proto__', 'constructor']);
    expect('Healthy' in {}).toBe(false);
  });

  it.each([
    ['no message', Buffer.alloc(0)],
    ['bytes that are no message', framed(Buffer.alloc(300, 0xff))],
    ['millions of mounts', framed(Buffer.concat([Buffer.of(0x0a, 0x80, 0x89, 0x7a), Buffer.alloc(2_000_000, Buffer.of(0x12, 0))]))],
  ])('that allocates with %s fails the container', async (_, bytes) => {
    serve = (stream) => answer(stream, bytes);
    await expect(plugin.allocate(['a'], new AbortController().signal)).rejects.toBeInstanceOf(GrpcError);
  });

  it('that never answers is left when the pod is gone, and when the plugin is replaced', async () => {
    const gone = new AbortController();
    let asked: () => void = () => {};
    const arrived = new Promise<void>((resolve) => {
      asked = resolve;
    });
    serve = (stream) => {
      stream.on('error', () => {});
      asked();
    };
    const allocation = plugin.allocate(['a'], gone.signal);
    await arrived;
    gone.abort(new Error('the pod is gone'));
    await expect(allocation).rejects.toThrow('the pod is gone');
    const [session] = sessions;
    const closed = new Promise((resolve) => {
      session?.once('close', resolve);
    });
    plugin.stop();
    await closed;
    expect(sessions.size).toBe(0);
  });
});
