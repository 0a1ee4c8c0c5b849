import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { X509Certificate } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { kubeletClientRequest } from '../../src/proxy/kubelet-client-request.ts';
import { ProxyAddresses } from '../../src/proxy/proxy-addresses.ts';
import { testKeys, type TestKeys } from '../support/keys.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

const path = '/api/v1/namespaces/a/pods/http:b:8080/proxy/x';
const rejection = { code: 400, message: 'address not allowed' };

let keys: TestKeys;
let server: TestServer;
let backend: Server;
let port = 0;
let reached = 0;

beforeAll(async () => {
  keys = await testKeys();
  backend = createServer((_, response) => {
    reached += 1;
    response.end('reached');
  });
  backend.listen(0, '127.0.0.1');
  await once(backend, 'listening');
  ({ port } = backend.address() as AddressInfo);
});
afterAll(() => {
  backend.closeAllConnections();
  backend.close();
});
beforeEach(async () => {
  reached = 0;
  server = await startServer({ keys });
});
afterEach(() => server.stop());

const to = (host: string, at: number, more: { readonly kubelet?: { readonly own: boolean }; readonly allowLoopback?: boolean } = {}) => {
  server.pipeline.answer = () => ({
    kind: 'proxy',
    scheme: more.kubelet ? 'https' : 'http',
    host,
    port: at,
    allowLoopback: false,
    ...more,
  });
};

describe('a destination on the loopback interface', () => {
  it.each([
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    'localhost',
    '0.0.0.0',
    '0',
  ])('%s is rejected by the address that it resolves to', async (host) => {
    to(host, port);
    expect((await server.http1('GET', path)).json()).toMatchObject(rejection);
    expect(reached).toBe(0);
  });

  it('is allowed if the ranges of the cluster are on loopback', async () => {
    for (const host of ['127.0.0.1', 'localhost']) {
      to(host, port, { allowLoopback: true });
      expect((await server.http1('GET', path)).text).toBe('reached');
    }
  });
});

it.each([
  '169.254.169.254',
  '2852039166',
  '::ffff:169.254.169.254',
  '224.0.0.1',
  '239.1.1.1',
  '255.255.255.255',
  'fe80::1',
  'fe80::1%lo',
  'ff02::1',
  '::',
])('%s is never a destination', async (host) => {
  to(host, port, { allowLoopback: true });
  expect((await server.http1('GET', path)).json()).toMatchObject(rejection);
});

describe('the API server itself as a destination', () => {
  it.each(['127.0.0.1', 'localhost', '2130706433', '::ffff:127.0.0.1'])('%s is rejected as a pod and as a kubelet', async (host) => {
    to(host, server.port, { allowLoopback: true });
    expect((await server.http1('GET', path)).json()).toMatchObject(rejection);
    to(host, server.port, { allowLoopback: true, kubelet: { own: false } });
    expect((await server.http1('GET', '/api/v1/nodes/n/proxy/api/v1/secrets')).json()).toMatchObject(rejection);
  });

  it('is rejected for logs', async () => {
    server.pipeline.answer = () => ({
      ...{ kind: 'kubelet', own: true, nodeName: 'n', host: 'localhost', port: server.port, path: '/api/v1/secrets', upgrade: false },
    });
    expect((await server.http1('GET', '/api/v1/namespaces/a/pods/b/log')).json()).toMatchObject(rejection);
  });

  it('is every address of the machine on its port if it listens on all addresses', () => {
    const addresses = new ProxyAddresses({ listeners: () => [{ host: '0.0.0.0', port: 6443 }], excluded: ['127.96.0.1'] });
    const outside = Object.values(networkInterfaces())
      .flatMap((list) => list ?? [])
      .filter(({ address }) => !address.startsWith('fe80'));
    for (const address of ['127.0.0.1', '127.128.0.7', '::1', ...outside.map((each) => each.address)]) {
      expect(addresses.allows(address, { port: 6443, allowLoopback: true })).toBe(false);
      expect(addresses.allows(address, { port: 6444, allowLoopback: true })).toBe(true);
    }
    expect(addresses.allows('127.96.0.1', { port: 443, allowLoopback: true })).toBe(false);
  });

  it('is one address if it listens on one: pods may have the port on other addresses', () => {
    const addresses = new ProxyAddresses({ listeners: () => [{ host: '127.0.0.1', port: 6443 }] });
    expect(addresses.allows('127.0.0.1', { port: 6443, allowLoopback: true })).toBe(false);
    expect(addresses.allows('127.128.0.7', { port: 6443, allowLoopback: true })).toBe(true);
  });
});

describe('the kubelet client certificate', () => {
  it('names a user without groups', () => {
    expect(kubeletClientRequest).toEqual({ commonName: 'kube-apiserver-kubelet-client', usages: ['client'] });
  });

  it('is presented to the kubelet and to no other port', async () => {
    const pair = await keys.issue({ commonName: 'system:node:n', ipAddresses: ['127.0.0.1'], usages: ['server'] });
    const subjects: (string | undefined)[] = [];
    const peer = createTlsServer(
      { cert: pair.certificate, key: pair.key, ca: keys.caBundle, requestCert: true, rejectUnauthorized: false },
      (request, response) => {
        const raw = (request.socket as unknown as { getPeerCertificate(): { raw?: Buffer } }).getPeerCertificate().raw;
        subjects.push(raw && new X509Certificate(raw).subject);
        response.end();
      },
    );
    peer.listen(0, '127.0.0.1');
    await once(peer, 'listening');
    const at = (peer.address() as AddressInfo).port;
    to('127.0.0.1', at, { allowLoopback: true, kubelet: { own: true } });
    await server.http1('GET', '/api/v1/nodes/n/proxy/configz');
    server.pipeline.answer = () => ({ kind: 'proxy', scheme: 'https', host: '127.0.0.1', port: at, allowLoopback: true });
    await server.http1('GET', path);
    expect(subjects).toEqual(['CN=kube-apiserver-kubelet-client', undefined]);
    peer.closeAllConnections();
    peer.close();
  });
});
