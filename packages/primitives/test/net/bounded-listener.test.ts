import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { boundConnections, listenerDeadlines } from '@oarlock/primitives/net/bounded-listener';
import { afterEach, expect, it } from 'vitest';

let server: Server | undefined;
const clients: Socket[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  await new Promise((resolve) => (server === undefined ? resolve(undefined) : server.close(resolve)));
});

async function listen(bounds: Parameters<typeof boundConnections>[1]): Promise<() => Promise<Socket>> {
  const listener = createServer(listenerDeadlines, (_request, response) => response.end('ok'));
  server = listener;
  boundConnections(listener, bounds);
  await new Promise<void>((resolve) => {
    listener.listen(0, '127.0.0.1', resolve);
  });
  return async () => {
    const accepted = Promise.race([once(listener, 'connection'), once(listener, 'drop')]);
    const client = connect((listener.address() as AddressInfo).port, '127.0.0.1').on('error', () => {});
    clients.push(client);
    await accepted;
    return client;
  };
}

it('the oldest connection of a source without a request is closed for a new one', async () => {
  const open = await listen({ maxSilentPerSource: 2 });
  const [first, second] = [await open(), await open()];
  const closed = once(first, 'close');
  await open();
  await closed;
  expect(second.destroyed).toBe(false);
});

it('a connection with a request does not count', async () => {
  const open = await listen({ maxSilentPerSource: 1 });
  const busy = await open();
  busy.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await once(busy, 'data');
  await open();
  busy.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  expect(String((await once(busy, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 /);
});

it('connections beyond the total bound are closed', async () => {
  const open = await listen({ maxConnections: 1 });
  await open();
  const second = await open();
  await once(second.resume(), 'close');
});

const upgrade = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

it('an upgrade is a request like others for a server without upgrades, as without bounds', async () => {
  const open = await listen({ maxSilentPerSource: 1 });
  server?.on('checkContinue', () => {});
  expect(server?.listenerCount('upgrade')).toBe(0);
  const client = await open();
  client.write(upgrade);
  expect(String((await once(client, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 /);
});

it.each(['before', 'after'])('a connection with an upgrade does not count, with a listener that was added %s the bounds', async (order) => {
  const listener = createServer(listenerDeadlines);
  server = listener;
  const accept = () =>
    listener.on('upgrade', (_request, socket) => {
      socket.resume().once('end', () => socket.end());
      socket.write('upgraded');
    });
  if (order === 'before') accept();
  boundConnections(listener, { maxSilentPerSource: 1 });
  if (order === 'after') accept();
  await new Promise<void>((resolve) => {
    listener.listen(0, '127.0.0.1', resolve);
  });
  const open = async () => {
    const accepted = once(listener, 'connection');
    const client = connect((listener.address() as AddressInfo).port, '127.0.0.1');
    clients.push(client);
    await accepted;
    return client;
  };
  const upgraded = await open();
  upgraded.write(upgrade);
  expect(String((await once(upgraded, 'data'))[0])).toBe('upgraded');
  const silent = await open();
  const closed = once(silent, 'close');
  await open();
  await closed;
  expect(upgraded.destroyed).toBe(false);
});
