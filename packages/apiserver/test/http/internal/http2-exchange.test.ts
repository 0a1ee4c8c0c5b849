import { once } from 'node:events';
import { connect, constants, createServer, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import type { ClientConnection } from '../../../src/http/client-connection.ts';
import { Http2Exchange } from '../../../src/http/internal/http2-exchange.ts';
import { RequestBodyMemory } from '../../../src/http/request-body-memory.ts';

const sends: readonly (readonly [string, (exchange: Http2Exchange) => void])[] = [
  ['a response', (exchange) => exchange.send(504, 'late')],
  ['a stream', (exchange) => exchange.openStream(200).end()],
];

it.each(sends)('%s is dropped after the client has reset its request, also while the body is not read to its end', async (_, send) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const request = session.request({ ':method': 'POST' }).on('error', () => undefined);
  request.write('body');
  const [stream, headers] = (await once(server, 'stream')) as [ServerHttp2Stream, IncomingHttpHeaders];
  const exchange = new Http2Exchange(stream, { headers, rawHeaders: [] }, {} as ClientConnection, new RequestBodyMemory());
  // a slow backend does not read the body
  exchange
    .requestStream()
    ?.on('data', () => undefined)
    .pause();
  await expect.poll(() => stream.readableLength).toBe(4);
  request.close(constants.NGHTTP2_NO_ERROR);
  await expect.poll(() => stream.closed).toBe(true);
  expect(stream.destroyed).toBe(false);
  expect(() => send(exchange)).not.toThrow();
  session.destroy();
  server.close();
});
