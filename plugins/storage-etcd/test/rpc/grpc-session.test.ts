import { once } from 'node:events';
import { constants, createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { GrpcError } from '@oarlock/grpc/grpc-error';
import { systemClock } from '@oarlock/primitives/clock';
import { expect, it } from 'vitest';
import { rpcs } from '../../src/rpc/etcd-messages.ts';
import { GrpcSession } from '../../src/rpc/grpc-session.ts';

it('can be closed by the receiver of a stream that the server resets, while another stream is open', async () => {
  const server = createServer();
  const streams: ServerHttp2Stream[] = [];
  server.on('stream', (stream) => {
    stream.on('error', () => undefined);
    streams.push(stream);
    // as a member of etcd that has lost its leader
    if (streams.length === 2) streams[0]?.close(constants.NGHTTP2_CANCEL);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const session = await GrpcSession.open(
    `http://127.0.0.1:${port}`,
    {},
    { clock: systemClock, keepaliveMs: 60_000, pingTimeoutMs: 60_000 },
  );
  const ended: string[] = [];
  const open = (name: string) =>
    new Promise<GrpcError>((resolve) => {
      const receiver = {
        message: () => undefined,
        ended: (error: GrpcError) => {
          ended.push(name);
          session.close(error);
          resolve(error);
        },
      };
      session.duplex(rpcs.watch, {}, receiver);
    });
  const errors = await Promise.all([open('first'), open('second')]);
  expect(ended).toEqual(['first', 'second']);
  expect(errors.map(({ code }) => code)).toEqual(['UNAVAILABLE', 'UNAVAILABLE']);
  await session.closed;
  server.close();
});
