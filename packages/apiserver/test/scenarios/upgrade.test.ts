import { createServer, type Server } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { notFound } from '@oarlock/api/status';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { encoded, frame } from '../support/fake-pipeline.ts';
import { testKeys, type TestKeys } from '../support/keys.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

let keys: TestKeys;
let server: TestServer;
let kubelet: Server;
let kubeletPort = 0;
const seen: { url: string; peer: string; headers: IncomingMessage['headers'] }[] = [];
let onRequest: (request: IncomingMessage, response: ServerResponse) => void;
let onUpgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

async function startKubelet(own: TestKeys): Promise<Server> {
  const pair = await own.issue({ commonName: 'system:node:n', ipAddresses: ['127.0.0.1'], usages: ['server'] });
  const created = createServer({ cert: pair.certificate, key: pair.key, ca: keys.caBundle, requestCert: true, rejectUnauthorized: true });
  const note = (request: IncomingMessage) => {
    seen.push({
      url: request.url ?? '',
      peer: (request.socket as TLSSocket).getPeerX509Certificate()?.subject ?? '',
      headers: request.headers,
    });
  };
  created.on('request', (request, response) => {
    note(request);
    onRequest(request, response);
  });
  created.on('upgrade', (request, socket, head) => {
    note(request);
    socket.on('error', () => undefined);
    onUpgrade(request, socket, head);
  });
  await new Promise<void>((resolve) => {
    created.listen(0, '127.0.0.1', resolve);
  });
  return created;
}

beforeAll(async () => {
  keys = await testKeys();
  kubelet = await startKubelet(keys);
  kubeletPort = (kubelet.address() as AddressInfo).port;
});
afterAll(() => {
  kubelet.closeAllConnections();
  kubelet.close();
});
beforeEach(async () => {
  seen.length = 0;
  server = await startServer({ keys });
  server.pipeline.answer = ({ subresource }) => ({
    kind: 'kubelet',
    own: true,
    nodeName: 'n',
    host: '127.0.0.1',
    port: kubeletPort,
    path: `/${subresource}/a?x=y`,
    upgrade: subresource !== 'log',
  });
});
afterEach(() => server.stop());

const log = '/api/v1/namespaces/a/pods/b/log';
const exec = '/api/v1/namespaces/a/pods/b/exec?command=sh';

describe.each(['http1', 'http2'] as const)('logs over %s', (protocol) => {
  it('come from the kubelet, which authenticates the server', async () => {
    onRequest = (_, response) => {
      response.setHeader('content-type', 'text/plain');
      response.end('line 1\nline 2\n');
    };
    const answer = await server[protocol]('GET', log, { headers: { authorization: 'Bearer good', 'x-mine': '1' } });
    expect([answer.code, answer.text, answer.headers['content-type']]).toEqual([200, 'line 1\nline 2\n', 'text/plain']);
    expect(seen[0]).toMatchObject({ url: '/log/a?x=y', peer: 'CN=kube-apiserver-kubelet-client' });
    expect(seen[0]?.headers).not.toHaveProperty('authorization');
  });

  it("return the kubelet's error", async () => {
    onRequest = (_, response) => {
      response.statusCode = 400;
      response.end('container "c" in pod "b" is waiting to start: ContainerCreating');
    };
    expect((await server[protocol]('GET', log)).json()).toMatchObject({
      code: 400,
      reason: 'BadRequest',
      message: 'container "c" in pod "b" is waiting to start: ContainerCreating',
    });
    onRequest = (_, response) => {
      response.statusCode = 404;
      response.end('no such container');
    };
    expect((await server[protocol]('GET', log)).json()).toMatchObject({ code: 404, reason: 'NotFound' });
    onRequest = (_, response) => {
      response.statusCode = 500;
      response.end('x'.repeat(200_000));
    };
    const answer = await server[protocol]('GET', log);
    expect(answer.code).toBe(500);
    expect(answer.text.length).toBeLessThan(120_000);
  });

  it('are requested again if a kept connection was closed', async () => {
    onRequest = (_, response) => {
      response.end('one\n');
    };
    expect((await server[protocol]('GET', log)).text).toBe('one\n');
    let asked = 0;
    onRequest = (request, response) => {
      asked += 1;
      if (asked === 1) request.socket.destroy();
      else response.end('two\n');
    };
    expect(await server[protocol]('GET', log)).toMatchObject({ code: 200, text: 'two\n' });
    expect(asked).toBe(2);
  });

  it('are aborted if the kubelet aborts', async () => {
    onRequest = (_, response) => {
      response.write('half');
      setImmediate(() => {
        response.destroy();
      });
    };
    await expect(server[protocol]('GET', log)).rejects.toThrow();
  });

  it("cancel the kubelet's request when the client disconnects", async () => {
    let closed = false;
    onRequest = (_, response) => {
      response.write('first\n');
      response.once('close', () => {
        closed = true;
      });
    };
    if (protocol === 'http2') {
      const stream = server.session().request({ ':path': log });
      await new Promise((resolve) => {
        stream.once('data', resolve);
      });
      stream.close(8);
    } else {
      const socket = connectTls({ host: '127.0.0.1', port: server.port, ca: keys.caBundle });
      socket.write(`GET ${log} HTTP/1.1\r\nhost: x\r\n\r\n`);
      await new Promise((resolve) => {
        socket.once('data', resolve);
      });
      socket.destroy();
    }
    await expect.poll(() => closed).toBe(true);
  });
});

it('reject a kubelet with a certificate of another CA', async () => {
  const stranger = await startKubelet(await testKeys());
  try {
    server.pipeline.answer = () => ({
      kind: 'kubelet',
      own: true,
      nodeName: 'n',
      host: '127.0.0.1',
      port: (stranger.address() as AddressInfo).port,
      path: '/',
      upgrade: false,
    });
    expect((await server.http1('GET', log)).json()).toMatchObject({
      code: 500,
      message: expect.stringMatching(
        /^Get "https:\/\/127\.0\.0\.1:\d+\/": tls: failed to verify certificate: x509: certificate signed by/,
      ) as string,
    });
    server.pipeline.answer = () => ({ kind: 'kubelet', own: true, nodeName: 'n', host: '127.0.0.1', port: 1, path: '/', upgrade: false });
    expect((await server.http1('GET', log)).json()).toMatchObject({
      code: 500,
      message: 'Get "https://127.0.0.1:1/": dial tcp 127.0.0.1:1: connect: connection refused',
    });
    server.pipeline.answer = () => ({ kind: 'kubelet', own: true, nodeName: 'n', host: '127.0.0.1', port: 1, path: '/', upgrade: true });
    const status = await new Promise<string>((resolve, reject) => {
      const socket = webSocket(['v4.channel.k8s.io']);
      socket.once('error', () => {});
      socket.once('unexpected-response', (_, response) => {
        let text = '';
        response.on('data', (chunk: Buffer) => (text += chunk.toString()));
        response.once('end', () => resolve(text)).once('error', reject);
      });
    });
    expect(JSON.parse(status)).toEqual({
      ...{ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', details: {}, code: 500 },
      message: 'error dialing backend: dial tcp 127.0.0.1:1: connect: connection refused',
    });
    expect(seen).toHaveLength(0);
  } finally {
    stranger.close();
  }
});

const webSocket = (protocols: string[]) =>
  new WebSocket(`wss://127.0.0.1:${server.port}${exec}`, protocols, { ca: keys.caBundle, headers: { authorization: 'Bearer good' } });

describe('streams without an end', () => {
  const read = async (path: string, offered: string[]) => {
    const socket = new WebSocket(`wss://127.0.0.1:${server.port}${path}`, offered, {
      ca: keys.caBundle,
      headers: { authorization: 'Bearer good' },
    });
    const messages: (string | Buffer)[] = [];
    socket.on('message', (data: Buffer, binary) => messages.push(binary ? data : data.toString('utf8')));
    const code = await new Promise<number>((resolve, reject) => {
      socket.once('close', resolve);
      socket.once('unexpected-response', (asked, response) => {
        resolve(response.statusCode ?? 0);
        asked.destroy();
      });
      socket.once('error', reject);
    });
    return { code, messages, protocol: socket.protocol };
  };

  it('[sig-node] Pods should support retrieving logs from the container over websockets [NodeConformance] [Conformance]', async () => {
    onRequest = (_, response) => {
      response.setHeader('content-type', 'text/plain');
      response.end('container is alive\n');
    };
    const { code, messages, protocol } = await read(log, ['binary.k8s.io']);
    expect([code, protocol, Buffer.concat(messages as Buffer[]).toString()]).toEqual([1000, 'binary.k8s.io', 'container is alive\n']);
    const plain = await read(log, []);
    expect([plain.protocol, plain.messages]).toEqual(['', [Buffer.from('container is alive\n')]]);
    const base64 = await read(log, ['base64.binary.k8s.io']);
    expect(base64.messages).toEqual([Buffer.from('container is alive\n').toString('base64')]);
    await expect.poll(() => server.handler.active).toBe(0);
  });

  it('send each watch event as a message, and errors before the upgrade', async () => {
    const item = encoded({ kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'a', resourceVersion: '1' } });
    server.pipeline.watch(async function* () {
      yield [frame('ADDED', item), frame('DELETED', item)];
      await Promise.resolve();
    });
    const { messages } = await read('/api/v1/configmaps?watch=1', []);
    expect(messages.map((message) => JSON.parse(message as string) as unknown)).toEqual([
      { type: 'ADDED', object: item.object },
      { type: 'DELETED', object: item.object },
    ]);
    server.pipeline.answer = ({ resource }) => {
      throw notFound(resource, 'a');
    };
    expect((await read('/api/v1/configmaps?watch=1', []).catch(() => ({ code: 404 }))).code).toBe(404);
  });
});

describe('WebSockets', () => {
  const upstream = new WebSocketServer({
    noServer: true,
    handleProtocols: (offered) => (offered.has('v5.channel.k8s.io') ? 'v5.channel.k8s.io' : false),
  });

  it('are connected with the kubelet in both directions and end together', async () => {
    const closed: number[] = [];
    onUpgrade = (request, socket, head) => {
      upstream.handleUpgrade(request, socket, head, (peer) => {
        peer.send(Buffer.from([3, ...Buffer.from('hello')]));
        peer.on('message', (data: Buffer) => {
          peer.send(data);
        });
        peer.on('close', (code) => {
          closed.push(code);
        });
      });
    };
    const client = webSocket(['v5.channel.k8s.io', 'v4.channel.k8s.io']);
    const messages: Buffer[] = [];
    client.on('message', (data: Buffer) => {
      messages.push(data);
    });
    await new Promise((resolve, reject) => {
      client.once('open', resolve);
      client.once('error', reject);
    });
    expect(client.protocol).toBe('v5.channel.k8s.io');
    const large = Buffer.alloc(1_000_000, 7);
    client.send(large);
    await expect.poll(() => messages.length).toBe(2);
    expect(messages[0]?.toString('utf8', 1)).toBe('hello');
    expect(messages[1]?.equals(large)).toBe(true);
    expect(seen[0]).toMatchObject({
      url: '/exec/a?x=y',
      headers: { 'sec-websocket-protocol': 'v5.channel.k8s.io,v4.channel.k8s.io', upgrade: 'websocket' },
    });
    expect(seen[0]?.headers).not.toHaveProperty('authorization');
    client.close(1000);
    await new Promise((resolve) => {
      client.once('close', resolve);
    });
    await expect.poll(() => closed).toEqual([1000]);
    await expect.poll(() => server.handler.active).toBe(0);
  });

  it('end when the server stops', async () => {
    onUpgrade = (request, socket, head) => {
      upstream.handleUpgrade(request, socket, head, () => undefined);
    };
    const client = webSocket(['v5.channel.k8s.io']);
    await new Promise((resolve) => {
      client.once('open', resolve);
    });
    const closed = new Promise((resolve) => {
      client.once('close', resolve);
    });
    client.on('error', () => undefined);
    await server.stop();
    await closed;
  });

  it('are rejected like other requests', async () => {
    const rejection = (client: WebSocket) =>
      new Promise<[number | undefined, string]>((resolve) => {
        client.once('unexpected-response', (_, response) => {
          let text = '';
          response.on('data', (chunk: Buffer) => {
            text += chunk.toString('utf8');
          });
          response.on('end', () => {
            resolve([response.statusCode, text]);
          });
        });
      });
    onUpgrade = (_, socket) => {
      socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 6\r\n\r\nnot me');
    };
    expect(await rejection(webSocket([]))).toEqual([403, 'not me']);
    server.pipeline.answer = () => {
      throw new Error('broken');
    };
    expect((await rejection(webSocket([])))[0]).toBe(500);
    expect(
      (
        await rejection(
          new WebSocket(`wss://127.0.0.1:${server.port}${exec}`, { ca: keys.caBundle, headers: { authorization: 'Bearer bad' } }),
        )
      )[0],
    ).toBe(401);
    await expect.poll(() => server.handler.active).toBe(0);
  });

  it('are required for interactive subresources', async () => {
    expect((await server.http2('POST', exec)).json()).toMatchObject({ code: 400, message: 'Upgrade request required' });
  });
});

describe('other upgrade protocols', () => {
  const upgrade = (protocol: string) =>
    new Promise<TLSSocket>((resolve, reject) => {
      const socket = connectTls(
        { host: '127.0.0.1', port: server.port, ca: keys.caBundle, ALPNProtocols: ['http/1.1'], allowHalfOpen: true } as never,
        () => {
          socket.write(
            `POST ${exec} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: ${protocol}\r\nx-stream-protocol-version: v4.channel.k8s.io\r\ncontent-length: 0\r\n\r\nearly`,
          );
        },
      );
      socket.once('error', reject);
      let head = '';
      const read = (chunk: Buffer) => {
        head += chunk.toString('latin1');
        if (!head.includes('\r\n\r\n')) return;
        socket.off('data', read);
        socket.pause();
        socket.unshift(Buffer.from(head.slice(head.indexOf('\r\n\r\n') + 4), 'latin1'));
        resolve(Object.assign(socket, { head }));
      };
      socket.on('data', read);
    });

  it('are forwarded byte by byte with half-close', async () => {
    onUpgrade = (_, socket, head) => {
      socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\nx-stream-protocol-version: v4.channel.k8s.io\r\n\r\n',
      );
      (socket as Duplex).allowHalfOpen = true;
      const chunks: Buffer[] = [head];
      socket.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
      });
      socket.once('end', () => {
        socket.end(`got ${Buffer.concat(chunks).toString('latin1')}`);
      });
    };
    const socket = await upgrade('SPDY/3.1');
    expect((socket as TLSSocket & { head: string }).head).toMatch(/^HTTP\/1.1 101 .*x-stream-protocol-version: v4.channel.k8s.io/is);
    let text = '';
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
    });
    socket.resume();
    socket.end(' and late');
    await new Promise((resolve) => {
      socket.once('end', resolve);
    });
    expect(text).toBe('got early and late');
    expect(seen[0]).toMatchObject({ headers: { upgrade: 'SPDY/3.1', 'x-stream-protocol-version': 'v4.channel.k8s.io' } });
    await expect.poll(() => server.handler.active).toBe(0);
  });

  it('end at both ends when one disconnects', async () => {
    let peer: Duplex | undefined;
    onUpgrade = (_, socket) => {
      peer = socket;
      socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n');
      socket.resume();
    };
    const first = await upgrade('SPDY/3.1');
    first.destroy();
    await expect.poll(() => peer?.destroyed).toBe(true);
    const second = await upgrade('SPDY/3.1');
    second.on('error', () => undefined);
    const closed = new Promise((resolve) => {
      second.once('close', resolve);
    });
    second.resume();
    peer?.destroy();
    second.once('end', () => {
      second.end();
    });
    await closed;
    await expect.poll(() => server.handler.active).toBe(0);
  });

  it('are ignored for requests without upgrade support', async () => {
    server.pipeline.object({ kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'a', namespace: 'default' } });
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connectTls({ host: '127.0.0.1', port: server.port, ca: keys.caBundle }, () => {
        socket.write(
          'GET /api/v1/namespaces/default/configmaps/a HTTP/1.1\r\nhost: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n\r\n',
        );
      });
      let text = '';
      socket.on('data', (chunk: Buffer) => {
        text += chunk.toString('utf8');
      });
      socket.once('end', () => {
        resolve(text);
      });
      socket.once('error', reject);
    });
    expect(answer).toMatch(/^HTTP\/1.1 200 OK/);
    expect(answer).toContain('"name":"a"');
  });
});
