import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { boundConnections, listenerDeadlines } from '@oarlock/primitives/net/bounded-listener';
import { afterEach, describe, expect, it } from 'vitest';

let server: Server | undefined;
const clients: Socket[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  await new Promise((resolve) => (server === undefined ? resolve(undefined) : server.close(resolve)));
});

/** The paths of the requests that the handler has received. */
const handled: (string | undefined)[] = [];

async function listen(bounds: Parameters<typeof boundConnections>[1]): Promise<() => Promise<Socket>> {
  handled.length = 0;
  const listener = createServer(listenerDeadlines, ({ url }, response) => {
    handled.push(url);
    response.end('ok');
  });
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

describe('a malformed request', () => {
  const okay = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
  const post = 'POST / HTTP/1.1\r\nHost: a\r\n';

  /** Sends bytes followed by a valid request, and returns what the server answers until it closes the connection. */
  async function answerTo(bytes: string): Promise<string> {
    const client = await (await listen({}))();
    let answer = '';
    client.on('data', (chunk: Buffer) => {
      answer += chunk.toString('latin1');
    });
    const closed = once(client, 'close');
    client.end(bytes + okay, 'latin1');
    await closed;
    return answer;
  }

  it.each([
    ['a request line without a version', 'GET /\r\n\r\n'],
    ['a request line without a version, with headers', 'GET / \r\nHost: a\r\n\r\n'],
    ['HTTP/0.9', 'GET / HTTP/0.9\r\nHost: a\r\n\r\n'],
    ['HTTP/2.0 as text', 'GET / HTTP/2.0\r\nHost: a\r\n\r\n'],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['an unknown version', 'GET / HTTP/7.3\r\nHost: a\r\n\r\n'],
    ['no host', 'GET / HTTP/1.1\r\n\r\n'],
    ['two lengths', `${post}Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx`],
    ['a length and chunks', `${post}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['a length that is no number', `${post}Content-Length: +1\r\n\r\nx`],
    ['a length of 2^64', `${post}Content-Length: 18446744073709551616\r\n\r\nx`],
    ['NUL in a header', 'GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n'],
    ['a header name with a space', 'GET / HTTP/1.1\r\nHost : a\r\n\r\n'],
    ['a header without a colon', 'GET / HTTP/1.1\r\nHost\r\n\r\n'],
    ['an unknown method', 'GOT / HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['a bare CR in a header', 'GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n'],
    ['bytes of another protocol', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['a head of 64 KiB', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(65_536)}\r\n\r\n`],
  ])('is not answered, or with an error, and ends its connection: %s', async (_title, bytes) => {
    expect(await answerTo(bytes)).toMatch(/^(HTTP\/1\.1 [45]\d\d [^]*)?$/);
  });

  it.each([
    ['a request line without a version', 'POST /write\r\n\r\n'],
    ['HTTP/0.9', 'POST /write HTTP/0.9\r\nHost: a\r\n\r\n'],
    ['HTTP/2.0', 'POST /write HTTP/2.0\r\nHost: a\r\n\r\n'],
    ['an upgrade of HTTP/0.9', 'GET /write HTTP/0.9\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'],
  ])('does not reach the handler: %s', async (_title, bytes) => {
    await answerTo(bytes);
    expect(handled).toEqual([]);
  });

  it.each([
    ['another transfer coding', `${post}Transfer-Encoding: identity, chunkedx\r\n\r\n0\r\n\r\n`],
    ['a chunk length that is no number', `${post}Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n`],
  ])('with %s is the last one of its connection', async (_title, bytes) => {
    expect((await answerTo(bytes)).match(/HTTP\/1\.1 200 /g) ?? []).toHaveLength(1);
  });

  it('differs from a valid one, after which another one is answered', async () => {
    expect((await answerTo(okay)).match(/HTTP\/1\.1 200 /g)).toHaveLength(2);
  });
});
