import { X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@oarlock/primitives/logger';
import { certificateSigningRequests } from '@oarlock/api/resources';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { parse } from 'yaml';
import { openKeys, rotateAuthority } from '../../src/pki/keys.ts';
import { kubeconfig } from '../../src/pki/kubeconfig.ts';
import { NodeCertificates } from '../../src/pki/node-certificates.ts';

const dayMs = 86_400_000;
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'node-certificates-'));
});
afterEach(() => rm(directory, { recursive: true }));

it('renews what a node shows, before it ends, and shows it at once', async () => {
  const { keys } = await openKeys(join(directory, 'pki'), 'https://issuer.example');
  const request = (usage: 'client' | 'server', days: number) =>
    keys.issue({ commonName: 'system:node:n1', organizations: ['system:nodes'], usages: [usage], days });
  const [client, serving] = [await request('client', 100), await request('server', 300)];
  const file = (name: string) => join(directory, name);
  await writeFile(file('kubeconfig'), kubeconfig({ cluster: 'c', server: 'https://a', ca: keys.caBundle, user: 'system:node:n1', client }));
  await writeFile(file('crt'), serving.certificate);
  await writeFile(file('key'), serving.key);
  const asked: CertificateSigningRequest[] = [];
  const shown: string[] = [];
  let denies = true;
  const clock = new FakeClock({ start: Date.now() });
  const api = memoryApi({ clock });
  const cluster = api.client();
  const answer = async (request: CertificateSigningRequest) => {
    const { request: csr = '', signerName } = request.spec ?? {};
    const usages = [signerName === 'kubernetes.io/kubelet-serving' ? ('server' as const) : ('client' as const)];
    const subject = { commonName: 'system:node:n1', organizations: ['system:nodes'], usages, days: 365 };
    const status = denies
      ? { conditions: [{ type: 'Denied', status: 'True', message: 'not today' }] }
      : { certificate: Buffer.from(await keys.sign(Buffer.from(csr, 'base64').toString('utf8'), subject)).toString('base64') };
    await cluster.update(certificateSigningRequests, { ...request, status }, { subresource: 'status' });
  };
  const requests = api.informers.forResource(certificateSigningRequests);
  requests.addEventHandler({
    onAdd(request) {
      asked.push(request);
      void answer(request);
    },
  });
  const certificates = new NodeCertificates({
    nodeName: 'n1',
    kubeconfigFile: file('kubeconfig'),
    certificateFile: file('crt'),
    keyFile: file('key'),
    client: cluster,
    address: async () => '127.0.0.1',
    renewed: ({ cert }) => {
      if (cert !== undefined) shown.push(cert);
    },
    clock,
    log: silentLogger,
  });
  await certificates.start();
  await clock.advance(69 * dayMs);
  expect(asked).toHaveLength(0);
  await clock.advance(2 * dayMs); // seven tenths of a hundred days are over
  // and again and again; it may look at the clock now and begin to sleep a moment later
  await expect.poll(async () => clock.advance(60_000).then(() => asked.length), { timeout: 120_000 }).toBeGreaterThan(0);
  denies = false;
  await expect.poll(async () => clock.advance(10 * 60_000).then(() => shown.length), { timeout: 120_000 }).toBe(1);
  const { users } = parse(await readFile(file('kubeconfig'), 'utf8')) as { users: [{ name: string; user: Record<string, string> }] };
  expect(users[0].name).toBe('system:node:n1');
  expect(Buffer.from(users[0].user['client-certificate-data'] ?? '', 'base64').toString()).toBe(shown[0]);
  const [certificate, key] = await Promise.all([readFile(file('crt'), 'utf8'), readFile(file('key'), 'utf8')]);
  expect(certificate).not.toBe(serving.certificate);
  expect(key).not.toBe(serving.key);
  expect(new X509Certificate(certificate).subject).toContain('CN=system:node:n1');
  for (const name of ['kubeconfig', 'crt', 'key']) expect((await stat(file(name))).mode & 0o777, name).toBe(0o600);
  expect(asked.at(-1)?.spec?.usages).toContain('digital signature');
  await certificates.stop();
  await api.stop();
});

it('trusts the CAs that the cluster has, and has its certificates from the one that signs', async () => {
  const pki = join(directory, 'pki');
  const file = (name: string) => join(directory, name);
  const { keys } = await openKeys(pki, 'https://issuer.example');
  const pair = (usage: 'client' | 'server') =>
    keys.issue({ commonName: 'system:node:n1', organizations: ['system:nodes'], usages: [usage] });
  const [client, serving] = [await pair('client'), await pair('server')];
  await writeFile(file('kubeconfig'), kubeconfig({ cluster: 'c', server: 'https://a', ca: keys.caBundle, user: 'system:node:n1', client }));
  await writeFile(file('crt'), serving.certificate);
  await writeFile(file('key'), serving.key);
  await rotateAuthority(pki, 'add');
  await rotateAuthority(pki, 'use');
  const { keys: now } = await openKeys(pki, 'https://issuer.example');
  const clock = new FakeClock({ start: Date.now() });
  const api = memoryApi({ clock });
  api.paths.set('/oarlock/v1/ca', { ca: now.caBundle });
  const cluster = api.client();
  api.informers.forResource(certificateSigningRequests).addEventHandler({
    onAdd(request) {
      const usages = [request.spec?.signerName === 'kubernetes.io/kubelet-serving' ? ('server' as const) : ('client' as const)];
      const csr = Buffer.from(request.spec?.request ?? '', 'base64').toString('utf8');
      void now.sign(csr, { commonName: 'system:node:n1', organizations: ['system:nodes'], usages }).then((certificate) => {
        const status = { certificate: Buffer.from(certificate).toString('base64') };
        return cluster.update(certificateSigningRequests, { ...request, status }, { subresource: 'status' });
      });
    },
  });
  const shown: { readonly cert?: string; readonly ca?: string }[] = [];
  const certificates = new NodeCertificates({
    nodeName: 'n1',
    kubeconfigFile: file('kubeconfig'),
    certificateFile: file('crt'),
    keyFile: file('key'),
    client: cluster,
    address: async () => '127.0.0.1',
    renewed: (what) => shown.push(what),
    clock,
    log: silentLogger,
  });
  await certificates.start();
  await expect.poll(async () => clock.advance(1_000).then(() => shown.length), { timeout: 120_000 }).toBe(2);
  expect(shown[0]).toEqual({ ca: now.caBundle });
  const signing = new X509Certificate(now.caBundle); // the first of both
  for (const certificate of [shown[1]?.cert ?? '', await readFile(file('crt'), 'utf8')])
    expect(new X509Certificate(certificate).verify(signing.publicKey)).toBe(true);
  const { clusters } = parse(await readFile(file('kubeconfig'), 'utf8')) as { clusters: [{ cluster: Record<string, string> }] };
  expect(Buffer.from(clusters[0].cluster['certificate-authority-data'] ?? '', 'base64').toString()).toBe(now.caBundle);
  await certificates.stop();
  await api.stop();
});
