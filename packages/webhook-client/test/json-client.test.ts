import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callHostileServers } from '@oarlock/testing/network/hostile-http';
import { JsonClient } from '@oarlock/webhook-client/json-client';

const run = promisify(execFile);
const waitMs = 60_000;
let server: Server | undefined;
let client: JsonClient | undefined;
afterEach(async () => {
  client?.close();
  server?.closeAllConnections();
  await new Promise((resolve) => (server === undefined ? resolve(undefined) : server.close(resolve)));
  server = undefined;
});

async function listen(requests: Server): Promise<number> {
  server = requests;
  await new Promise<void>((resolve) => {
    requests.listen(0, '127.0.0.1', resolve);
  });
  return (requests.address() as AddressInfo).port;
}

it('a server that switches protocols fails the call', async () => {
  const port = await listen(
    createServer((request) => {
      request.socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n');
    }),
  );
  client = new JsonClient({ url: `http://127.0.0.1:${port}/` });
  await expect(client.post({}, waitMs)).rejects.toThrow('the server switched protocols');
});

it('a form is sent with its own credentials, never with the token of the endpoint to another URL', async () => {
  const requests: (readonly [string | undefined, string | undefined, string])[] = [];
  const port = await listen(
    createServer((request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => {
        body += chunk.toString();
      });
      request.on('end', () => {
        requests.push([request.headers['content-type'], request.headers.authorization, body]);
        response.end('{"a":1}');
      });
    }),
  );
  client = new JsonClient({ url: `http://127.0.0.1:${port}/` });
  const url = `http://127.0.0.1:${port}/token`;
  expect(await client.postForm(url, { code: 'a b&c', n: '1' }, { timeoutMs: waitMs, authorization: 'Basic x' })).toEqual({
    code: 200,
    body: { a: 1 },
  });
  await client.postForm(url, {}, { timeoutMs: waitMs });
  const type = 'application/x-www-form-urlencoded';
  expect(requests).toEqual([
    [type, 'Basic x', 'code=a+b%26c&n=1'],
    [type, undefined, ''],
  ]);
});

it('a form can have a response without JSON, of which the status is returned', async () => {
  const port = await listen(
    createServer((request, response) => {
      request.resume();
      response.writeHead(204).end();
    }),
  );
  client = new JsonClient({ url: `http://127.0.0.1:${port}/` });
  const url = `http://127.0.0.1:${port}/revoke`;
  expect(await client.sendForm(url, { token: 't' }, { timeoutMs: waitMs })).toBe(204);
  await expect(client.postForm(url, { token: 't' }, { timeoutMs: waitMs })).rejects.toThrow('responded with 204 without JSON');
});

describe('kept connection', () => {
  /**
   * Runs a server that answers the first request of a connection and closes the connection at the second one, for the given number of
   * connections.
   */
  async function givingUp(first: (connection: number) => boolean = () => true) {
    const seen = new Map<Socket, number>();
    const bodies: string[] = [];
    const port = await listen(
      createServer((request, response) => {
        const count = (seen.get(request.socket) ?? 0) + 1;
        seen.set(request.socket, count);
        if (count > 1 || !first(seen.size)) {
          request.socket.destroy();
          return;
        }
        let body = '';
        request.setEncoding('utf8').on('data', (part: string) => (body += part));
        request.once('end', () => {
          bodies.push(body);
          response.end('{"fine":true}');
        });
      }),
    );
    client = new JsonClient({ url: `http://127.0.0.1:${port}/` });
    return { client, bodies, connections: () => seen.size };
  }

  it('is replaced without a lost request if the server closed it', async () => {
    const { client: json, bodies, connections } = await givingUp();
    for (let n = 0; n < 4; n++) expect(await json.post({ n }, waitMs)).toEqual({ code: 200, body: { fine: true } });
    expect(bodies).toEqual(['{"n":0}', '{"n":1}', '{"n":2}', '{"n":3}']);
    expect(connections()).toBeGreaterThan(1);
  });

  it('is retried only once: if new connections are closed too, the service is unavailable', async () => {
    const { client: json, connections } = await givingUp((connection) => connection === 1);
    expect((await json.post({}, waitMs)).code).toBe(200);
    await expect(json.post({}, waitMs)).rejects.toThrow(/^Post "http.*": (EOF|read tcp .*: read: connection reset by peer)$/);
    expect(connections()).toBe(2);
  });
});

describe('certificate of a service', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'json-post-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  /** Runs a service whose certificate is signed by the test's CA with the given hash. */
  async function serve(hash: string, names: string | undefined): Promise<JsonClient> {
    const file = (name: string) => join(folder, name);
    const key = ['-newkey', 'rsa:2048', '-nodes'];
    await run('openssl', ['req', '-x509', ...key, '-keyout', file('ca.key'), '-out', file('ca.crt'), '-subj', '/CN=ca', '-days', '2']);
    const san = names === undefined ? [] : ['-addext', `subjectAltName=${names}`];
    await run('openssl', ['req', ...key, '-keyout', file('key'), '-out', file('csr'), '-subj', '/CN=localhost', ...san]);
    const sign = ['-CA', file('ca.crt'), '-CAkey', file('ca.key'), '-CAcreateserial', '-copy_extensions', 'copy', '-days', '2'];
    await run('openssl', ['x509', '-req', '-in', file('csr'), ...sign, `-${hash}`, '-out', file('crt')]);
    const port = await listen(
      createTlsServer(
        // the lowest security level of the server, so that the client has to reject the certificate
        { cert: await readFile(file('crt')), key: await readFile(file('key')), ciphers: 'DEFAULT@SECLEVEL=0' },
        (_, response) => response.end('{}'),
      ),
    );
    client = new JsonClient({ url: `https://localhost:${port}/`, caFile: file('ca.crt') });
    return client;
  }

  it('is accepted with a subject alternative name', async () => {
    expect((await (await serve('sha256', 'DNS:localhost')).post({}, waitMs)).code).toBe(200);
  });
  it('is rejected if it has only a common name', async () => {
    await expect((await serve('sha256', undefined)).post({}, waitMs)).rejects.toThrow(
      'x509: certificate relies on legacy Common Name field, use SANs instead',
    );
  });
  it('is rejected for another name', async () => {
    await expect((await serve('sha256', 'DNS:elsewhere')).post({}, waitMs)).rejects.toThrow(
      'x509: certificate is valid for elsewhere, not localhost',
    );
  });
  it('is rejected with a SHA-1 signature', async () => {
    await expect((await serve('sha1', 'DNS:localhost')).post({}, waitMs)).rejects.toThrow(
      'x509: cannot verify signature: insecure algorithm',
    );
  });
});

it('survives every response', async () => {
  const count = await callHostileServers(async (port) => {
    const hostile = new JsonClient({ url: `http://127.0.0.1:${port}/` });
    await hostile.post({}, 2_000).finally(() => hostile.close());
  });
  expect(count).toBeGreaterThan(40);
});
