import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { KeyPair } from '@oarlock/spi/cluster';
import type { TestServer } from './start-server.ts';

/** Connects over TCP, without a TLS handshake. `localAddress` may be any address of 127.0.0.0/8. */
export async function rawTcp({ port }: Pick<TestServer, 'port'>, localAddress = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port, localAddress });
  socket.on('error', () => socket.destroy());
  await once(socket, 'connect');
  return socket.resume();
}

export interface RawTlsOptions {
  readonly protocol: 'h2' | 'http/1.1';
  readonly pair?: KeyPair;
  readonly allowHalfOpen?: boolean;
}

/** Completes the TLS handshake and sends nothing. Call `resume` or read `data` to see the end of the connection. */
export async function rawTls({ port, keys }: TestServer, { protocol, pair, allowHalfOpen }: RawTlsOptions): Promise<TLSSocket> {
  const socket = connectTls({
    socket: connect({ host: '127.0.0.1', port, ...(allowHalfOpen !== undefined && { allowHalfOpen }) }),
    ...(allowHalfOpen !== undefined && { allowHalfOpen }),
    ca: keys.caBundle,
    ALPNProtocols: [protocol],
    servername: 'localhost',
    ...(pair && { cert: pair.certificate, key: pair.key }),
  });
  socket.on('error', () => socket.destroy());
  await once(socket, 'secureConnect');
  return socket;
}

/** Collects what the server sends until it closes the connection. */
export async function readToEnd(socket: Socket): Promise<string> {
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  await closed(socket);
  return text;
}

/** Resolves when the connection is closed, with or without an error. */
export const closed = (socket: Socket): Promise<void> =>
  socket.destroyed
    ? Promise.resolve()
    : new Promise((resolve) => {
        socket.once('close', () => resolve());
        socket.resume();
      });

/** Writes the bytes one by one and repeatedly, until the connection is closed. */
export function dribble(socket: Socket, bytes: Buffer, intervalMs: number): void {
  let at = 0;
  const timer = setInterval(() => {
    socket.write(bytes.subarray(at, at + 1));
    at = (at + 1) % bytes.length;
  }, intervalMs);
  socket.once('close', () => clearInterval(timer));
}

export const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
export const frameTypes = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, windowUpdate: 8, continuation: 9 } as const;
export const frameFlags = { endStream: 1, endHeaders: 4 } as const;

export interface Frame {
  readonly type: keyof typeof frameTypes;
  readonly flags?: number;
  readonly stream?: number;
  readonly payload?: Buffer;
}

/** Encodes an HTTP/2 frame (RFC 9113, section 4.1). */
export function encodeFrame({ type, flags = 0, stream = 0, payload = Buffer.alloc(0) }: Frame): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(frameTypes[type], 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** The header block of `GET path`: indexed fields of the static table of HPACK, and literals without indexing. */
export function getHeaders(path: string): Buffer {
  const literal = (index: number, value: string) => Buffer.concat([Buffer.from([index, value.length]), Buffer.from(value)]);
  return Buffer.concat([Buffer.from([0x82, 0x87]), literal(0x04, path), literal(0x01, 'localhost')]);
}

/** Returns how many connections and streams the server has closed, by reason. */
export async function closedByReason({ registry }: Pick<TestServer, 'registry'>): Promise<Readonly<Record<string, number>>> {
  const metric = await registry.getSingleMetric('apiserver_connections_closed_total')?.get();
  return Object.fromEntries(metric?.values.map(({ labels, value }) => [labels['reason'], value]) ?? []);
}
