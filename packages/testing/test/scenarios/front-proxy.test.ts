import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, rm, unlink } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { configMaps } from '@oarlock/api/resources';
import type { UserInfo } from '@oarlock/api/types/authentication-v1';
import { signLeaf } from '@oarlock/cluster/pki/certificate-writer';
import { clusterSchema } from '@oarlock/cluster/cluster-file/cluster-schema';
import { newCertificateRequest } from '@oarlock/cluster/pki/node-csr';
import { openKeys } from '@oarlock/cluster/pki/keys';
import { run, type RunningCluster } from '@oarlock/cluster/run';
import { Client } from '@oarlock/spi/client';
import type { ClusterKeys, KeyPair } from '@oarlock/spi/cluster';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const withRequestHeader = [
  { use: 'authn-request-header', config: { allowedNames: ['front-proxy-client'] } },
  { use: 'authn-client-certificate' },
  { use: 'authn-anonymous' },
];
const attack = { 'x-remote-user': 'root', 'x-remote-group': 'system:masters', 'x-remote-extra-a': 'b' };

let dataDir: string;
let running: RunningCluster | undefined;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'oarlock-front-proxy-'));
});
afterEach(async () => {
  await stop();
  await rm(dataDir, { recursive: true });
});

const pki = (name: string) => join(dataDir, 'pki', name);
const stop = async () => {
  await running?.stop();
  running = undefined;
};

async function start(authn?: readonly object[]): Promise<ClusterKeys> {
  const { spec } = clusterSchema.parse({
    apiVersion: 'oarlock.dev/v1',
    kind: 'Cluster',
    metadata: { name: 'test' },
    spec: { roles: ['apiserver'], storage: 'storage-memory', ...(authn !== undefined && { authn }) },
  });
  running = await run({ dataDir, port: 0, file: { name: 'test', spec, locate: () => undefined } });
  return (await openKeys(join(dataDir, 'pki'), 'https://issuer.example')).keys;
}

/** Issues a client certificate of the front-proxy CA, as an administrator does for an authenticating proxy. */
async function frontProxyPair(commonName: string, organizations: readonly string[] = []): Promise<KeyPair> {
  const ca = { certificate: await readFile(pki('front-proxy-ca.crt'), 'utf8'), key: await readFile(pki('front-proxy-ca.key'), 'utf8') };
  const { key } = await newCertificateRequest({ nodeName: 'unused' });
  const publicKey = createPublicKey(createPrivateKey(key)).export({ type: 'spki', format: 'der' });
  return { certificate: signLeaf(ca, publicKey, { commonName, organizations, usages: ['client'] }), key };
}

interface Call {
  readonly pair?: KeyPair;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: string;
  readonly body?: object;
}
async function call(path: string, { pair, headers = {}, method = 'GET', body }: Call = {}): Promise<{ code: number; body: string }> {
  const ca = await readFile(pki('ca.crt'), 'utf8');
  return new Promise((resolve, reject) => {
    const options = { method, ca, agent: false, headers: { 'content-type': 'application/json', ...headers } };
    const tls = pair === undefined ? {} : { cert: pair.certificate, key: pair.key };
    const sent = request(new URL(path, running?.server), { ...options, ...tls }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part: string) => (text += part));
      answer.once('end', () => resolve({ code: answer.statusCode ?? 0, body: text }));
    });
    sent.once('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** Returns the user that the API server authenticates, or the status code of the rejection. */
async function whoami(pair: KeyPair | undefined, headers: Readonly<Record<string, string>> = {}): Promise<UserInfo | number> {
  const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
  const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
  const { code, body } = await call(path, { method: 'POST', body: review, headers, ...(pair && { pair }) });
  return code === 201 ? (JSON.parse(body) as { status: { userInfo: UserInfo } }).status.userInfo : code;
}

const credentialOf = ({ certificate }: KeyPair) =>
  `X509SHA256=${new X509Certificate(certificate).fingerprint256.replaceAll(':', '').toLowerCase()}`;
const userOf = (pair: KeyPair, username: string) => ({
  username,
  groups: ['system:authenticated'],
  extra: { 'authentication.kubernetes.io/credential-id': [credentialOf(pair)] },
});

describe('a certificate of the cluster CA with X-Remote headers', () => {
  it.each(['front-proxy-client', 'kube-apiserver-kubelet-client'])(
    'authenticates %s itself, never the user in the headers',
    async (name) => {
      const keys = await start(withRequestHeader);
      const issued = await keys.issue({ commonName: name, usages: ['client'] });
      const { key, csr } = await newCertificateRequest({ nodeName: 'attacker' });
      const signed = { key, certificate: await keys.sign(csr, { commonName: name, usages: ['client'] }) };
      for (const pair of [issued, signed]) {
        expect(await whoami(pair, attack)).toEqual(userOf(pair, name));
        expect((await call('/api/v1/secrets', { pair, headers: attack })).code).toBe(403);
      }
    },
  );
});

describe('a certificate of the front-proxy CA', () => {
  it('authenticates the user in the headers if its name is allowed', async () => {
    await start(withRequestHeader);
    const pair = await frontProxyPair('front-proxy-client');
    expect(await whoami(pair, { 'x-remote-user': 'ada', 'x-remote-group': 'devs', 'x-remote-extra-__proto__': 'x' })).toEqual({
      username: 'ada',
      groups: ['devs', 'system:authenticated'],
      extra: JSON.parse('{"__proto__":["x"]}') as object,
    });
  });

  it('is no user: without headers and with another name the request is rejected', async () => {
    await start(withRequestHeader);
    for (const name of ['front-proxy-client', 'kube-apiserver-kubelet-client', 'root']) {
      const pair = await frontProxyPair(name, ['system:masters']);
      expect(await whoami(pair), name).toBe(401);
      expect((await call('/healthz', { pair })).code, name).toBe(401);
      if (name !== 'front-proxy-client') expect(await whoami(pair, attack), name).toBe(401);
    }
    expect((await call('/healthz')).code).toBe(200);
  });

  it('is rejected without authn-request-header', async () => {
    await start();
    const pair = await frontProxyPair('front-proxy-client');
    expect([await whoami(pair, attack), await whoami(pair)]).toEqual([401, 401]);
  });
});

describe('a data directory of a version without a front-proxy CA', () => {
  it('gets one at the next start, and certificates of the cluster CA stay valid', async () => {
    const before = await start();
    const node = await before.issue({ commonName: 'system:node:n1', organizations: ['system:nodes'], usages: ['client'] });
    await stop();
    for (const name of ['front-proxy-ca', 'front-proxy-client']) for (const end of ['crt', 'key']) await unlink(pki(`${name}.${end}`));
    const after = await start();
    expect(after.caBundle).toBe(before.caBundle);
    expect(await whoami(node)).toMatchObject({ username: 'system:node:n1' });
    const map = { namespace: 'kube-system', name: 'extension-apiserver-authentication' };
    const { data } = (await running?.composition.host.get(Client).get(configMaps, map)) ?? {};
    expect(data).toMatchObject({
      'client-ca-file': new X509Certificate(before.caBundle).toString(),
      'requestheader-client-ca-file': new X509Certificate(await readFile(pki('front-proxy-ca.crt'), 'utf8')).toString(),
    });
    expect(before.caBundle).not.toBe(after.frontProxy?.caBundle);
  });
});
