import { createServer, type AddressInfo } from 'node:net';
import { systemClock } from '@oarlock/primitives/clock';
import { expect, it } from 'vitest';
import { HttpClient } from '../../src/registry/http-client.ts';

it('a request fails if the registry switches protocols', async () => {
  const server = createServer((socket) =>
    socket
      .on('error', () => {})
      .once('data', () => socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n')),
  );
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const client = new HttpClient(systemClock, {});
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v2/`);
  const tls = { ca: [], certificates: [], skipVerify: false };
  const { signal } = new AbortController();
  await expect(client.send({ url, method: 'GET', headers: {}, tls, dialTimeoutMs: 60_000, signal })).rejects.toMatchObject({
    code: 'Unavailable',
    message: expect.stringContaining('the server switched protocols'),
  });
  client.close();
  await new Promise((resolve) => {
    server.close(resolve);
  });
});
