import type { X509Certificate } from 'node:crypto';
import { abstained, authenticated, type Authenticator, type Credentials } from '@oarlock/spi/authn';
import type { KeyPair } from '@oarlock/spi/cluster';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { configMap } from '../support/fake-pipeline.ts';
import { testKeys, type TestKeys } from '../support/keys.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

const path = '/api/v1/namespaces/default/configmaps/a';
const client = { commonName: 'front-proxy-client', usages: ['client'] } as const;
const nameOf = (certificate: X509Certificate | undefined) => /CN=(.*)/.exec(certificate?.subject ?? '')?.[1];

let keys: TestKeys;
let server: TestServer;
const seen: Credentials[] = [];
const recorder: Authenticator = {
  authenticate: (credentials) => {
    seen.push(credentials);
    return credentials.certificate === undefined ? abstained : authenticated({ name: nameOf(credentials.certificate) ?? '', groups: [] });
  },
};
beforeAll(async () => {
  keys = await testKeys();
  server = await startServer({ keys, authn: [recorder] });
  server.pipeline.object(configMap('a'));
});
afterAll(() => server.stop());
beforeEach(() => {
  seen.length = 0;
  server.pipeline.requests.length = 0;
});

async function request(protocol: 'http1' | 'http2', pair: KeyPair): Promise<number> {
  const answer =
    protocol === 'http1'
      ? await server.http1('GET', path, { tls: { cert: pair.certificate, key: pair.key } })
      : await server.http2('GET', path, { over: server.session(pair) });
  return answer.code;
}
const presented = () => seen.map(({ certificate, frontProxyCertificate }) => [nameOf(certificate), nameOf(frontProxyCertificate)]);

describe.each(['http1', 'http2'] as const)('a client certificate over %s', (protocol) => {
  it('of the cluster CA authenticates a user, whatever its name is', async () => {
    expect(await request(protocol, await keys.issue(client))).toBe(200);
    expect(presented()).toEqual([['front-proxy-client', undefined]]);
  });

  it('of the front-proxy CA is accepted by the handshake and authenticates no user', async () => {
    expect(await request(protocol, await keys.issueFrontProxy(client))).toBe(401);
    expect(presented()).toEqual([[undefined, 'front-proxy-client']]);
    expect(server.pipeline.requests).toEqual([]);
  });

  it('of the front-proxy CA for TLS servers is not accepted as front proxy', async () => {
    expect(await request(protocol, await keys.issueFrontProxy({ ...client, usages: ['server'] }))).toBe(401);
    expect(presented()).toEqual([[undefined, undefined]]);
  });

  it('of another CA with the name of the front-proxy CA is not accepted', async () => {
    const otherKeys = await testKeys(); // with the same CA names
    expect(await request(protocol, await otherKeys.issueFrontProxy(client))).toBe(401);
    expect(presented()).toEqual([[undefined, undefined]]);
  });

  it('keeps its CA after the serving certificate is replaced', async () => {
    server.server.setCertificate(await keys.issue({ commonName: 'kube-apiserver', ipAddresses: ['127.0.0.1'], usages: ['server'] }));
    expect(await request(protocol, await keys.issueFrontProxy(client))).toBe(401);
    expect(await request(protocol, await keys.issue(client))).toBe(200);
    expect(presented()).toEqual([
      [undefined, 'front-proxy-client'],
      ['front-proxy-client', undefined],
    ]);
  });
});
