import { readFile, mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { clusterSchema } from '@oarlock/cluster/cluster-file/cluster-schema';
import { openKeys, rotateAuthority, rotateServiceAccountKey } from '@oarlock/cluster/pki/keys';
import { adminKubeconfig } from '@oarlock/cluster/process/process-state';
import { run, type RunningCluster } from '@oarlock/cluster/run';
import { loadKubeconfig } from '@oarlock/client/kubeconfig';
import { configMaps, serviceAccounts, tokenReviews } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import type { TokenRequest } from '@oarlock/api/types/authentication-v1';
import type { KeyPair } from '@oarlock/spi/cluster';
import { Client } from '@oarlock/spi/client';
import { afterEach, beforeEach, expect, it } from 'vitest';

let dataDir: string;
let running: RunningCluster | undefined;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'oarlock-keys-'));
});
afterEach(async () => {
  await running?.stop();
  running = undefined;
  await rm(dataDir, { recursive: true });
});

const pki = () => join(dataDir, 'pki');
async function start(): Promise<RunningCluster> {
  await running?.stop();
  running = undefined;
  const { spec } = clusterSchema.parse({
    apiVersion: 'oarlock.dev/v1',
    kind: 'Cluster',
    metadata: { name: 'test' },
    spec: { roles: ['apiserver', 'controllers'], storage: 'storage-memory' },
  });
  running = await run({ dataDir, port: 0, file: { name: 'test', spec, locate: () => undefined } });
  return running;
}

/** Returns the user name that the server authenticates over HTTPS, or the code of the rejection or connection error. */
function whoami(ca: string, pair: KeyPair): Promise<string | number> {
  return new Promise((resolve) => {
    const body = JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' });
    const call = request(
      new URL('/apis/authentication.k8s.io/v1/selfsubjectreviews', running?.server),
      { method: 'POST', ca, cert: pair.certificate, key: pair.key, agent: false, headers: { 'content-type': 'application/json' } },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part: string) => (text += part));
        answer.once('end', () => {
          const { status } = JSON.parse(text) as { readonly status: { readonly userInfo?: { readonly username: string } } };
          resolve(status.userInfo?.username ?? answer.statusCode ?? 0);
        });
      },
    );
    call.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    call.end(body);
  });
}
const adminAccess = async () => {
  const { options } = await loadKubeconfig(adminKubeconfig(dataDir), { environment: {} });
  return { ca: options.ca ?? '', pair: { certificate: options.cert ?? '', key: options.key ?? '' } };
};
const rootCa = async () =>
  (await running?.composition.host.get(Client).get(configMaps, { namespace: 'default', name: 'kube-root-ca.crt' }))?.data?.['ca.crt'];

it('a second CA is trusted while the first one ends, without an interruption for any client', async () => {
  await start();
  const first = await readFile(join(pki(), 'ca.crt'), 'utf8');
  const ada = await (await openKeys(pki(), 'https://issuer.example')).keys.issue({ commonName: 'ada', usages: ['client'] });
  expect(await whoami(first, ada)).toBe('ada');

  await rotateAuthority(pki(), 'add');
  await start();
  const second = await readFile(join(pki(), 'ca-next.crt'), 'utf8');
  // clients that trust only the first CA continue, and pods receive both
  expect(await whoami(first, ada)).toBe('ada');
  await expect.poll(async () => rootCa().catch(() => '')).toBe(first + second);

  await rotateAuthority(pki(), 'use');
  await start();
  const { ca, pair } = await adminAccess();
  expect(ca).toBe(second + first);
  // the server's certificate is signed by the second CA, and client certificates of both are accepted
  expect(await whoami(second, pair)).toBe('kubernetes-admin');
  expect(await whoami(first + second, ada)).toBe('ada');
  expect(await whoami(first, ada)).not.toBe('ada');

  await rotateAuthority(pki(), 'end');
  await start();
  expect(await whoami(second, pair)).toBe('kubernetes-admin');
  expect(await whoami(second, ada)).toBe(401);
  expect((await adminAccess()).ca).toBe(second);
});

it('tokens stay valid until they expire after their key was replaced in a running server', async () => {
  const token = async (account: string) => {
    const client = running?.composition.host.get(Client);
    const wanted: TokenRequest = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { audiences: [] } };
    const name = { namespace: 'default', name: account };
    const created = await client?.create(serviceAccounts as unknown as Resource<TokenRequest>, wanted, { subresource: 'token', name });
    return created?.status?.token ?? '';
  };
  const knows = async (value: string) => {
    const client = running?.composition.host.get(Client);
    const asked = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token: value } } as const;
    return (await client?.create(tokenReviews, asked))?.status?.authenticated ?? false;
  };
  const keyId = (value: string) => (JSON.parse(Buffer.from(value.split('.')[0] ?? '', 'base64url').toString()) as { kid: string }).kid;
  const { composition } = await start();
  await composition.host.get(Client).create(serviceAccounts, { metadata: { namespace: 'default', name: 'robot' } });
  const old = await token('robot');
  await rotateServiceAccountKey(pki());
  // the server reloads the new key itself
  let fresh = '';
  await expect.poll(async () => keyId((fresh = await token('robot')))).not.toBe(keyId(old));
  expect([await knows(old), await knows(fresh)]).toEqual([true, true]);
  // a key of the other type replaces it, and tokens of all three keys are valid
  const algorithmOf = (value: string) =>
    (JSON.parse(Buffer.from(value.split('.')[0] ?? '', 'base64url').toString()) as { alg: string }).alg;
  await rotateServiceAccountKey(pki(), 'RS256');
  let rsa = '';
  await expect.poll(async () => algorithmOf((rsa = await token('robot')))).toBe('RS256');
  expect([await knows(old), await knows(fresh), await knows(rsa)]).toEqual([true, true, true]);
  const discovery = await composition.host.get(Client).raw('GET', '/.well-known/openid-configuration');
  expect(discovery).toMatchObject({ id_token_signing_alg_values_supported: ['RS256', 'ES256'] });
  const forged = `${old.slice(0, -4)}AAAA`;
  expect(await knows(forged)).toBe(false);
});
