import { X509Certificate } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, request as httpsRequest, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { APIService } from '@oarlock/api/types/apiregistration-v1';
import { systemClock } from '@oarlock/primitives/clock';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { authenticated, Authn } from '@oarlock/spi/authn';
import { Authz } from '@oarlock/spi/authz';
import { Cluster, Keys, type KeyPair } from '@oarlock/spi/cluster';
import { Loopback } from '@oarlock/spi/loopback';
import { Roles } from '@oarlock/spi/role';
import { Storage } from '@oarlock/spi/storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { requestHeaders } from '../../src/aggregation/request-header.ts';
import { withAggregatedDiscovery, withAggregatedGroups } from '../../src/endpoints/discovery/aggregated-groups.ts';
import type { ApiServer } from '../../src/server/api-server.ts';
import apiserver from '../../src/plugin.ts';
import { testKeys, type TestKeys } from '../support/keys.ts';

// the tests start servers, issue certificates and wait for probes

let keys: TestKeys;
let extensionKeys: TestKeys;
let extension: Server;
let extensionPort = 0;
let host: PluginHost;
let port = 0;
interface Seen {
  readonly method: string;
  readonly url: string;
  readonly peer: string;
  readonly headers: IncomingMessage['headers'];
}
const seen: Seen[] = [];
const pemOf = (certificate: string) => new X509Certificate(certificate).toString();
let healthy = true;

const group = 'wardle.example.com';
const path = `/apis/${group}/v1alpha1`;
const resources = [
  { name: 'flunders', singularName: 'flunder', namespaced: true, kind: 'Flunder', verbs: ['get', 'list', 'watch'], shortNames: ['fl'] },
  { name: 'flunders/status', singularName: '', namespaced: true, kind: 'Flunder', verbs: ['get'] },
];

/** Serves requests to the extension API server. */
function answer(request: IncomingMessage, response: ServerResponse): void {
  const [at, query = ''] = (request.url ?? '').split('?');
  const json = (value: unknown, code = 200) => {
    response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  };
  if (!healthy) json({ kind: 'Status', code: 500 }, 500);
  else if (at === path) json({ kind: 'APIResourceList', apiVersion: 'v1', groupVersion: `${group}/v1alpha1`, resources });
  else if (at === '/openapi/v2')
    json({
      swagger: '2.0',
      paths: {
        [`${path}/flunders`]: { get: { operationId: 'listFlunders', responses: { 200: { description: 'OK' } } } },
        '/api/v1/pods': {},
      },
      definitions: { 'com.example.wardle.v1alpha1.Flunder': { type: 'object', description: 'A flunder.' } },
    });
  else if (at === '/openapi/v3') json({ paths: { [path.slice(1)]: { serverRelativeURL: `/openapi/v3${path}?hash=ABC` } } });
  else if (at === `/openapi/v3${path}`) json({ openapi: '3.0.0', info: { title: 'flunders' } });
  else if (query.includes('watch=')) {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write('{"type":"ADDED","object":{"kind":"Flunder"}}\n');
  } else json({ kind: 'Flunder', apiVersion: `${group}/v1alpha1`, metadata: { name: at?.split('/').at(-1) } });
}

beforeAll(async () => {
  keys = await testKeys();
  extensionKeys = await testKeys('extension-ca');
  const pair = await extensionKeys.issue({ commonName: 'sample', dnsNames: ['sample.default.svc'], usages: ['server'] });
  extension = createServer(
    { cert: pair.certificate, key: pair.key, ca: keys.frontProxy.caBundle, requestCert: true, rejectUnauthorized: true },
    (request, response) => {
      seen.push({
        method: request.method ?? '',
        url: request.url ?? '',
        peer: (request.socket as TLSSocket).getPeerX509Certificate()?.subject ?? '',
        headers: request.headers,
      });
      answer(request, response);
    },
  );
  extension.on('upgrade', (request, socket) => {
    seen.push({ method: 'UPGRADE', url: request.url ?? '', peer: '', headers: request.headers });
    socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello');
  });
  await new Promise<void>((resolve) => {
    extension.listen(0, '127.0.0.1', resolve);
  });
  extensionPort = (extension.address() as AddressInfo).port;
});
afterAll(() => {
  extension.closeAllConnections();
  extension.close();
});

beforeEach(async () => {
  healthy = true;
  seen.length = 0;
  host = new PluginHost({ clock: systemClock });
  host
    .provide(Cluster, {
      name: 'test',
      domain: 'cluster.local',
      podCIDRs: ['127.0.0.0/16'],
      serviceCIDRs: ['127.96.0.0/16'],
      kubernetesServiceIP: '127.96.0.1',
      dnsServiceIP: '127.96.0.10',
      serverUrl: 'https://127.0.0.1:6443',
      nodePortRange: { from: 30_000, to: 32_767 },
      version: 'v1.36.0+oarlock.test',
    })
    .provide(Keys, keys)
    .provide(Loopback, { connect: () => undefined });
  host.add({
    plugin: Storage.plugin({ id: 'storage-test', config: z.strictObject({}), create: (_, { clock }) => new MemoryStorage({ clock }) }),
  });
  host.add({
    plugin: Authn.plugin({
      id: 'authn-test',
      config: z.strictObject({}),
      create: () => ({
        authenticate: () =>
          authenticated({ name: 'jane', groups: ['devs', 'system:authenticated'], uid: '42', extra: { 'example.com/a b': ['c'] } }),
      }),
    }),
  });
  host.add({
    plugin: Authz.plugin({
      id: 'authz-test',
      config: z.strictObject({}),
      create: () => ({
        authorize: (attributes) =>
          attributes.kind === 'resource' && attributes.name === 'secret'
            ? { decision: 'deny', reason: 'test' }
            : { decision: 'allow', reason: 'test' },
      }),
    }),
  });
  host.add({ plugin: apiserver, name: 'apiserver', config: { listen: { port: 0 } } });
  await host.start();
  port = (host.get(Roles)[0] as ApiServer).address.port;
});
afterEach(() => host.stop());

interface Answer {
  readonly code: number;
  readonly text: string;
  json<T = Record<string, unknown>>(): T;
}
const send = (method: string, at: string, body?: object, headers: Record<string, string> = {}) =>
  new Promise<Answer>((resolve, reject) => {
    const request = httpsRequest(
      {
        host: '127.0.0.1',
        port,
        path: at,
        method,
        ca: keys.caBundle,
        agent: false,
        headers: { 'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json', ...headers },
      },
      (response) => {
        let text = '';
        response.on('data', (chunk: Buffer) => {
          text += chunk.toString();
        });
        response.on('end', () => {
          resolve({ code: response.statusCode ?? 0, text, json: <T>() => JSON.parse(text) as T });
        });
      },
    );
    request.on('error', reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });

async function register(caBundle = extensionKeys.caBundle): Promise<void> {
  await send('POST', '/api/v1/namespaces/default/services', { metadata: { name: 'sample' }, spec: { ports: [{ port: 443 }] } });
  await send('POST', '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices', {
    metadata: { name: 'sample-1', labels: { 'kubernetes.io/service-name': 'sample' } },
    addressType: 'IPv4',
    ports: [{ name: '', port: extensionPort, protocol: 'TCP' }],
    endpoints: [{ addresses: ['127.0.0.1'], conditions: { ready: true } }],
  });
  const created = await send('POST', '/apis/apiregistration.k8s.io/v1/apiservices', {
    metadata: { name: `v1alpha1.${group}` },
    spec: {
      group,
      version: 'v1alpha1',
      groupPriorityMinimum: 2000,
      versionPriority: 200,
      caBundle: Buffer.from(caBundle).toString('base64'),
      service: { name: 'sample', namespace: 'default' },
    },
  });
  expect(created.code).toBe(201);
}

/** Watches the APIService until its condition Available has this status and reason. */
function available(status: string, reason: string): Promise<APIService> {
  return new Promise((resolve, reject) => {
    const request = httpsRequest(
      {
        host: '127.0.0.1',
        port,
        ca: keys.caBundle,
        agent: false,
        path: `/apis/apiregistration.k8s.io/v1/apiservices?watch=1&fieldSelector=metadata.name%3Dv1alpha1.${group}`,
      },
      (response) => {
        let text = '';
        response.on('data', (chunk: Buffer) => {
          text += chunk.toString();
          const lines = text.split('\n');
          text = lines.pop() ?? '';
          for (const line of lines) {
            const { object } = JSON.parse(line) as { object: APIService };
            const condition = object.status?.conditions?.find(({ type }) => type === 'Available');
            if (condition?.status !== status || condition.reason !== reason) continue;
            request.destroy();
            resolve(object);
          }
        });
      },
    );
    request.on('error', reject);
    request.end();
  });
}

describe('[sig-api-machinery] Aggregator', () => {
  it('Should be able to support the 1.17 Sample API Server using the current Aggregator [LinuxOnly] [Conformance]: forwards requests with the user and the front-proxy certificate', async () => {
    await register();
    expect((await available('True', 'Passed')).status?.conditions?.[0]?.message).toBe('all checks passed');
    seen.length = 0;
    const { code, json } = await send('GET', `${path}/namespaces/default/flunders/a?x=%20y`, undefined, {
      'x-remote-user': 'root',
      'x-remote-extra-evil': '1',
      authorization: 'Bearer token',
    });
    expect([code, json()]).toEqual([200, { kind: 'Flunder', apiVersion: `${group}/v1alpha1`, metadata: { name: 'a' } }]);
    expect(seen[0]).toMatchObject({
      url: `${path}/namespaces/default/flunders/a?x=%20y`,
      peer: 'CN=front-proxy-client',
      headers: {
        'x-remote-user': 'jane',
        'x-remote-uid': '42',
        'x-remote-group': 'devs, system:authenticated',
        'x-remote-extra-example.com%2fa%20b': 'c',
      },
    });
    expect(seen[0]?.headers).not.toHaveProperty('authorization');
    expect(seen[0]?.headers).not.toHaveProperty('x-remote-extra-evil');
    expect((await send('GET', `${path}/namespaces/default/flunders/secret`)).code).toBe(403);
    expect((await send('POST', `${path}/namespaces/default/flunders`, { a: 1 })).code).toBe(200);
  });

  it('is the only client that the extension API server accepts: a certificate of the cluster CA with its name is rejected', async () => {
    const forged = await keys.issue({ commonName: 'front-proxy-client', organizations: ['system:masters'], usages: ['client'] });
    const proxy = await keys.frontProxy.clientCertificate();
    const connect = (pair: KeyPair) =>
      new Promise<number>((resolve, reject) => {
        const tls = { ca: extensionKeys.caBundle, servername: 'sample.default.svc', cert: pair.certificate, key: pair.key, agent: false };
        const request = httpsRequest({ host: '127.0.0.1', port: extensionPort, path, headers: { 'x-remote-user': 'root' }, ...tls });
        request.once('response', (response) => resolve(response.resume().statusCode ?? 0));
        request.once('error', reject);
        request.end();
      });
    await expect(connect(forged)).rejects.toThrow();
    expect(await connect(proxy)).toBe(200);
  });

  it('adds the extension API server to discovery and OpenAPI', async () => {
    await register();
    await available('True', 'Passed');
    const groups = (await send('GET', '/apis')).json<{ groups: { name: string }[] }>().groups.map(({ name }) => name);
    expect(groups).toContain(group);
    expect((await send('GET', `/apis/${group}`)).json()).toMatchObject({ kind: 'APIGroup', preferredVersion: { version: 'v1alpha1' } });
    expect((await send('GET', path)).json()).toMatchObject({ kind: 'APIResourceList', resources });
    const aggregated = await send('GET', '/apis', undefined, {
      accept: 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList',
    });
    expect(
      aggregated.json<{ items: { metadata: { name: string } }[] }>().items.find(({ metadata }) => metadata.name === group),
    ).toMatchObject({
      versions: [
        {
          version: 'v1alpha1',
          freshness: 'Current',
          resources: [{ resource: 'flunders', scope: 'Namespaced', shortNames: ['fl'], subresources: [{ subresource: 'status' }] }],
        },
      ],
    });
    expect((await send('GET', '/')).json<{ paths: string[] }>().paths).toContain(path);
    const index = (await send('GET', '/openapi/v3')).json<{ paths: Record<string, { serverRelativeURL: string }> }>();
    expect(index.paths[path.slice(1)]).toEqual({ serverRelativeURL: `/openapi/v3${path}?hash=ABC` });
    expect((await send('GET', `/openapi/v3${path}?hash=ABC`)).json()).toMatchObject({ info: { title: 'flunders' } });
    const whole = (await send('GET', '/openapi/v2')).json<{ paths: Record<string, object>; definitions: Record<string, object> }>();
    expect(whole.paths[`${path}/flunders`]).toMatchObject({ get: { operationId: 'listFlunders' } });
    expect(whole.paths['/api/v1/pods']).toHaveProperty('get');
    expect(whole.definitions['com.example.wardle.v1alpha1.Flunder']).toEqual({ type: 'object', description: 'A flunder.' });
    const protobuf = await send('GET', '/openapi/v2', undefined, { accept: 'application/com.github.proto-openapi.spec.v2@v1.0+protobuf' });
    expect(protobuf.text.includes('com.example.wardle.v1alpha1.Flunder')).toBe(true);
  });

  it('streams watches and forwards upgrades', async () => {
    await register();
    await available('True', 'Passed');
    const first = await new Promise<string>((resolve, reject) => {
      const request = httpsRequest(
        { host: '127.0.0.1', port, path: `${path}/flunders?watch=1`, ca: keys.caBundle, agent: false },
        (response) => {
          response.once('data', (chunk: Buffer) => {
            request.destroy();
            resolve(chunk.toString());
          });
        },
      );
      request.on('error', reject);
      request.end();
    });
    expect(first).toContain('"ADDED"');
    const hello = await new Promise<string>((resolve, reject) => {
      const request = httpsRequest({
        host: '127.0.0.1',
        port,
        path: `${path}/namespaces/default/flunders/a/exec`,
        ca: keys.caBundle,
        agent: false,
        headers: { connection: 'Upgrade', upgrade: 'x' },
      });
      request.on('error', reject);
      request.on('upgrade', (_, socket, head) => {
        let text = head.toString();
        socket.on('data', (chunk: Buffer) => {
          text += chunk.toString();
        });
        socket.on('end', () => {
          socket.end();
          resolve(text);
        });
      });
      request.end();
    });
    expect(hello).toBe('hello');
    expect(seen.at(-1)).toMatchObject({ method: 'UPGRADE', headers: { 'x-remote-user': 'jane' } });
  });

  it('reports why an extension API server is unavailable, also in metrics, and responds with 503', async () => {
    const metrics = async () =>
      (await send('GET', '/metrics')).text.split('\n').filter((line) => /^aggregator_unavailable_apiservice.*v1alpha1/.test(line));
    const name = `name="v1alpha1.${group}"`;
    healthy = false;
    await register();
    const failing = await available('False', 'FailedDiscoveryCheck');
    expect(failing.status?.conditions?.[0]?.message).toBe(
      `failing or missing response from https://127.0.0.1:${extensionPort}${path}: bad status from https://127.0.0.1:${extensionPort}${path}: 500`,
    );
    expect(await send('GET', `${path}/flunders`)).toMatchObject({ code: 503 });
    const outages = `aggregator_unavailable_apiservice_total{${name},reason="FailedDiscoveryCheck"}`;
    expect(await metrics()).toEqual([`aggregator_unavailable_apiservice{${name}} 1`, expect.stringContaining(outages)]);
    healthy = true;
    await available('True', 'Passed');
    expect((await metrics())[0]).toBe(`aggregator_unavailable_apiservice{${name}} 0`);
    expect((await send('GET', `${path}/flunders`)).code).toBe(200);
  });

  it('trusts only the CA bundle of the APIService', async () => {
    await register(keys.caBundle);
    const { status } = await available('False', 'FailedDiscoveryCheck');
    const url = `https://127.0.0.1:${extensionPort}${path}`;
    expect(status?.conditions?.[0]?.message).toBe(
      `failing or missing response from ${url}: Get "${url}": ` +
        'tls: failed to verify certificate: x509: certificate signed by unknown authority',
    );
  });

  it.each([
    ['ServiceNotFound', async () => undefined, 'service/sample in "default" is not present'],
    [
      'ServicePortError',
      () => send('POST', '/api/v1/namespaces/default/services', { metadata: { name: 'sample' }, spec: { ports: [{ port: 80 }] } }),
      'service/sample in "default" is not listening on port 443',
    ],
    [
      'EndpointsNotFound',
      () => send('POST', '/api/v1/namespaces/default/services', { metadata: { name: 'sample' }, spec: { ports: [{ port: 443 }] } }),
      'cannot find endpoints for service/sample in "default"',
    ],
  ])('%s', async (reason, prepare, message) => {
    await prepare();
    await send('POST', '/apis/apiregistration.k8s.io/v1/apiservices', {
      metadata: { name: `v1alpha1.${group}` },
      spec: {
        group,
        version: 'v1alpha1',
        groupPriorityMinimum: 2000,
        versionPriority: 200,
        insecureSkipTLSVerify: true,
        service: { name: 'sample', namespace: 'default' },
      },
    });
    expect((await available('False', reason)).status?.conditions?.[0]?.message).toBe(message);
  });

  it('probes again as soon as endpoints are ready', async () => {
    await register();
    const slice = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/sample-1';
    await available('True', 'Passed');
    const endpoints = (ready: boolean) => ({ endpoints: [{ addresses: ['127.0.0.1'], conditions: { ready } }] });
    await send('PATCH', slice, endpoints(false));
    await send('PATCH', `/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.${group}`, { spec: { versionPriority: 300 } });
    expect((await available('False', 'MissingEndpoints')).status?.conditions?.[0]?.message).toBe(
      'endpoints for service/sample in "default" have no addresses with port name ""',
    );
    await send('PATCH', slice, endpoints(true));
    await available('True', 'Passed');
  });

  it('creates a deleted APIService of its own API groups again', async () => {
    const at = '/apis/apiregistration.k8s.io/v1/apiservices/v1.batch';
    const { metadata } = (await send('GET', at)).json<APIService>();
    await send('DELETE', at);
    await expect.poll(async () => (await send('GET', at)).json<APIService>().metadata?.uid ?? metadata?.uid).not.toBe(metadata?.uid);
  });

  it('has an APIService for each of its API groups, and publishes how extension API servers authenticate it', async () => {
    expect((await send('GET', '/apis/apiregistration.k8s.io/v1/apiservices/v1.apps')).json()).toMatchObject({
      metadata: { labels: { 'kube-aggregator.kubernetes.io/automanaged': 'onstart' } },
      spec: { group: 'apps', version: 'v1', versionPriority: 15 },
    });
    expect((await send('GET', '/apis/apiregistration.k8s.io/v1/apiservices/v1.')).json()).toMatchObject({ spec: { version: 'v1' } });
    const { data } = (await send('GET', '/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication')).json<{
      data: Record<string, string>;
    }>();
    expect(data).toEqual({
      'client-ca-file': pemOf(keys.caBundle),
      'requestheader-allowed-names': '["front-proxy-client"]',
      'requestheader-client-ca-file': pemOf(keys.frontProxy.caBundle),
      'requestheader-extra-headers-prefix': '["X-Remote-Extra-"]',
      'requestheader-group-headers': '["X-Remote-Group"]',
      'requestheader-uid-headers': '["X-Remote-Uid"]',
      'requestheader-username-headers': '["X-Remote-User"]',
    });
  });
});

describe('API groups of extension API servers', () => {
  const api = (name: string, version: string, groupPriority: number, versionPriority: number, available = true) => ({
    group: name,
    version,
    groupPriority,
    versionPriority,
    available,
  });
  it('follow the own API groups in discovery, by priority', () => {
    const documents = withAggregatedGroups(new Map([['/apis', { kind: 'APIGroupList', groups: [{ name: 'apps', versions: [] }] }]]), [
      api('a', 'v1beta1', 100, 10),
      api('a', 'v1', 100, 10),
      api('b', 'v2', 200, 10),
      api('c', 'v1', 300, 10, false),
    ]);
    expect(documents.get('/apis')).toMatchObject({
      groups: [{ name: 'apps' }, { name: 'c' }, { name: 'b' }, { name: 'a', preferredVersion: { version: 'v1' } }],
    });
    expect(documents.has('/apis/c')).toBe(true);
    expect(withAggregatedDiscovery({ items: [] }, [api('c', 'v1', 300, 10, false)])).toMatchObject({
      items: [{ metadata: { name: 'c' }, versions: [{ freshness: 'Stale', resources: [] }] }],
    });
  });
  it('receive the headers of the authenticated user only', () => {
    expect(requestHeaders({ 'x-remote-user': 'a', 'x-remote-extra-b': 'c' }, { name: 'n', groups: [] })).toEqual({
      'x-remote-user': 'n',
      'x-remote-uid': undefined,
      'x-remote-group': [],
      'x-remote-extra-b': undefined,
    });
  });
});
