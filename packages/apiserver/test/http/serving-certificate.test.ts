import { X509Certificate } from 'node:crypto';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KeyPair } from '@oarlock/spi/cluster';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { servingCertificateRequest } from '../../src/http/serving-certificate.ts';
import { configMap } from '../support/fake-pipeline.ts';
import { testKeys, type TestKeys } from '../support/keys.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

let server: TestServer;
let keys: TestKeys;
beforeAll(async () => {
  keys = await testKeys();
  server = await startServer({ keys });
  server.pipeline.object(configMap('a'));
});
afterAll(() => server.stop());

const path = '/api/v1/namespaces/default/configmaps/a';
const client = { commonName: 'alice', organizations: ['team'], usages: ['client'] } as const;
async function userOver(protocol: 'http1' | 'http2', pair: KeyPair | undefined): Promise<string | undefined> {
  server.pipeline.requests.length = 0;
  if (protocol === 'http1') await server.http1('GET', path, { tls: pair === undefined ? {} : { cert: pair.certificate, key: pair.key } });
  else await server.http2('GET', path, { over: server.session(pair) });
  return server.pipeline.requests[0]?.identity.name;
}

describe.each(['http1', 'http2'] as const)('a client certificate over %s', (protocol) => {
  it("authenticates if it is valid, of the cluster's CA and for clients", async () => {
    expect(await userOver(protocol, await keys.issue(client))).toBe('alice');
    expect(await userOver(protocol, undefined)).toBe('system:anonymous');
  });

  it('does not authenticate otherwise', async () => {
    expect(await userOver(protocol, await keys.issue({ ...client, usages: ['server'] }))).toBe('system:anonymous');
    expect(await userOver(protocol, await keys.issueWithin(client, { from: -10, to: -1 }))).toBe('system:anonymous');
    expect(await userOver(protocol, await keys.issueWithin(client, { from: 1, to: 2 }))).toBe('system:anonymous');
    const others = await testKeys();
    expect(await userOver(protocol, await others.issue(client))).toBe('system:anonymous');
    const namesakes = await testKeys('test-ca');
    expect(await userOver(protocol, await namesakes.issue(client))).toBe('system:anonymous');
  });
});

/** One request over a TLS connection that may resume an earlier session. */
async function resumable(
  pair: KeyPair | undefined,
  maxVersion: 'TLSv1.2' | 'TLSv1.3',
  session?: Buffer,
): Promise<{ readonly session: Buffer | undefined; readonly reused: boolean; readonly user: string | undefined }> {
  server.pipeline.requests.length = 0;
  const socket: TLSSocket = connectTls({
    host: '127.0.0.1',
    port: server.port,
    ca: keys.caBundle,
    maxVersion,
    ALPNProtocols: ['http/1.1'],
    ...(pair && { cert: pair.certificate, key: pair.key }),
    ...(session && { session }),
  });
  let latest: Buffer | undefined;
  let reused = false;
  socket.on('session', (ticket) => {
    latest = ticket;
  });
  await new Promise<void>((resolve, reject) => {
    socket.once('secureConnect', () => {
      reused = socket.isSessionReused();
      socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`);
    });
    socket.once('error', reject);
    socket.once('close', () => {
      resolve();
    });
    socket.resume();
  });
  return { session: latest, reused, user: server.pipeline.requests[0]?.identity.name };
}

describe.each(['TLSv1.2', 'TLSv1.3'] as const)('a resumed session of %s', (version) => {
  it('keeps the certificate of its first connection and gains none', async () => {
    const alice = await keys.issue(client);
    const first = await resumable(alice, version);
    expect(first.user).toBe('alice');
    const again = await resumable(undefined, version, first.session);
    // the session holds the certificate, and only the client of the first connection can resume it
    expect(again.user).toBe(again.reused ? 'alice' : 'system:anonymous');
    const anonymousSession = await resumable(undefined, version);
    expect(anonymousSession.user).toBe('system:anonymous');
    expect((await resumable(undefined, version, anonymousSession.session)).user).toBe('system:anonymous');
    const foreignPair = await (await testKeys()).issue(client);
    const foreignSession = await resumable(foreignPair, version);
    expect(foreignSession.user).toBe('system:anonymous');
    expect((await resumable(foreignPair, version, foreignSession.session)).user).toBe('system:anonymous');
  });
});

it('a client certificate that expires on an open connection no longer authenticates', async () => {
  const pair = await keys.issue(client);
  // less than the idle timeout of a connection
  const clock = new FakeClock({ start: Date.parse(new X509Certificate(pair.certificate).validTo) - 30_000 });
  const short = await startServer({ keys, clock });
  try {
    short.pipeline.object(configMap('a'));
    const session = short.session(pair);
    await short.http2('GET', path, { over: session });
    await clock.advance(60_000);
    await short.http2('GET', path, { over: session });
    expect(short.pipeline.requests.map(({ identity }) => identity.name)).toEqual(['alice', 'system:anonymous']);
  } finally {
    await short.stop();
  }
});

it('TLS versions before 1.2 are rejected', async () => {
  const socket = connectTls({
    host: '127.0.0.1',
    port: server.port,
    ca: keys.caBundle,
    minVersion: 'TLSv1.1',
    maxVersion: 'TLSv1.1',
    ciphers: 'DEFAULT@SECLEVEL=0',
  });
  await expect(
    new Promise((resolve, reject) => {
      socket.once('secureConnect', resolve);
      socket.once('error', reject);
    }),
  ).rejects.toThrow();
});

describe('the serving certificate', () => {
  const facts = {
    name: 'test',
    domain: 'cluster.local',
    podCIDRs: [],
    serviceCIDRs: [],
    kubernetesServiceIP: '10.96.0.1',
    dnsServiceIP: '10.96.0.10',
    serverUrl: 'https://192.0.2.7:6443',
    nodePortRange: { from: 30000, to: 32767 },
    version: 'v1.36.0',
  };

  it('has every name of the server', () => {
    const { dnsNames, ipAddresses, usages } = servingCertificateRequest(facts, ['api.example.com', '198.51.100.1', '0.0.0.0', undefined]);
    expect(dnsNames).toEqual(
      expect.arrayContaining([
        'kubernetes',
        'kubernetes.default',
        'kubernetes.default.svc',
        'kubernetes.default.svc.cluster.local',
        'localhost',
        'api.example.com',
      ]),
    );
    expect(ipAddresses).toEqual(expect.arrayContaining(['127.0.0.1', '::1', '10.96.0.1', '192.0.2.7', '198.51.100.1']));
    expect([...(dnsNames ?? []), ...(ipAddresses ?? [])]).not.toContain('0.0.0.0');
    expect(usages).toEqual(['server']);
  });

  it('is used for new connections after its renewal', async () => {
    const own = await startServer({ keys });
    const serialOf = () =>
      new Promise<string>((resolve, reject) => {
        const socket = connectTls({ host: '127.0.0.1', port: own.port, ca: keys.caBundle }, () => {
          resolve(socket.getPeerX509Certificate()?.serialNumber ?? '');
          socket.destroy();
        });
        socket.once('error', reject);
      });
    try {
      const before = await serialOf();
      own.server.setCertificate(await keys.issue({ commonName: 'kube-apiserver', ipAddresses: ['127.0.0.1'], usages: ['server'] }));
      expect(await serialOf()).not.toBe(before);
      own.pipeline.object(configMap('a'));
      const alice = await keys.issue(client);
      await own.http1('GET', path, { tls: { cert: alice.certificate, key: alice.key } });
      expect(own.pipeline.requests.at(-1)?.identity.name).toBe('alice');
    } finally {
      await own.stop();
    }
  });
});
