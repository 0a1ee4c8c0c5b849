import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { connectFirst } from '@oarlock/primitives/net/connect-first';

/** Listens at one address, and returns the port. */
async function listenAt(host: string): Promise<number> {
  const server = createServer((socket) => socket.end());
  server.listen(0, host);
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

it('connects to the first address that accepts', async () => {
  const port = await listenAt('127.0.0.3');
  const socket = await connectFirst(['127.0.0.2', '127.0.0.3'], port);
  expect(socket.remoteAddress).toBe('127.0.0.3');
  expect(socket.allowHalfOpen).toBe(true);
  socket.destroy();
});

it('reports the error of each address', async () => {
  const port = await listenAt('127.0.0.3');
  const failed = connectFirst(['127.0.0.2', '127.0.0.4'], port);
  await expect(failed).rejects.toMatchObject({
    errors: [
      { code: 'ECONNREFUSED', address: '127.0.0.2' },
      { code: 'ECONNREFUSED', address: '127.0.0.4' },
    ],
  });
});

it('ends with the reason of its signal, and tries no other address', async () => {
  const port = await listenAt('127.0.0.3');
  const reason = new Error('stopped');
  await expect(connectFirst(['127.0.0.2', '127.0.0.3'], port, AbortSignal.abort(reason))).rejects.toBe(reason);
});
