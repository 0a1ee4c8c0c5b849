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

it('renews both certificates of a node before they expire and uses them at once', async () => {
  const { keys } = await openKeys(join(directory, 'pki'), 'https://issuer.example');
  const request = (usage: 'client' | 'server', days: number) =>
    keys.issue({ commonName: 'system:node:n1', organizations: ['system:nodes'], usages: [usage], days });
  const [client, serving] = [await request('client', 100), await request('server', 300)];
  const file = (name: string) => join(directory, name);
  await writeFile(file('kubeconfig'), kubeconfig({ cluster: 'c', server: 'https://a', ca: keys.caBundle, user: 'system:node:n1', client }));
  await writeFile(file('crt'), serving.certificate);
  await writeFile(file('key'), serving.key);
  const created: CertificateSigningRequest[] = [];
  const presented: string[] = [];
  let denied = true;
  const clock = new FakeClock({ start: Date.now() });
  const api = memoryApi({ clock });
  const cluster = api.client();
  const sign = async (request: CertificateSigningRequest) => {
    const { request: csr = '', signerName } = request.spec ?? {};
    const usages = [signerName === 'kubernetes.io/kubelet-serving' ? ('server' as const) : ('client' as const)];
    const subject = { commonName: 'system:node:n1', organizations: ['system:nodes'], usages, days: 365 };
    const status = denied
      ? { conditions: [{ type: 'Denied', status: 'True', message: 'denied by the test' }] }
      : { certificate: Buffer.from(await keys.sign(Buffer.from(csr, 'base64').toString('utf8'), subject)).toString('base64') };
    await cluster.update(certificateSigningRequests, { ...request, status }, { subresource: 'status' });
  };
  const requests = api.informers.forResource(certificateSigningRequests);
  requests.addEventHandler({
    onAdd(request) {
      created.push(request);
      void sign(request);
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
      if (cert !== undefined) presented.push(cert);
    },
    clock,
    log: silentLogger,
  });
  await certificates.start();
  await clock.advance(69 * dayMs);
  expect(created).toHaveLength(0);
  await clock.advance(2 * dayMs); // after seven tenths of 100 days
  // advanced repeatedly: the certificates may read the clock now and start a timer later
  await expect.poll(async () => clock.advance(60_000).then(() => created.length)).toBeGreaterThan(0);
  denied = false;
  await expect.poll(async () => clock.advance(10 * 60_000).then(() => presented.length)).toBe(1);
  const { users } = parse(await readFile(file('kubeconfig'), 'utf8')) as { users: [{ name: string; user: Record<string, string> }] };
  expect(users[0].name).toBe('system:node:n1');
  expect(Buffer.from(users[0].user['client-certificate-data'] ?? '', 'base64').toString()).toBe(presented[0]);
  const [certificate, key] = await Promise.all([readFile(file('crt'), 'utf8'), readFile(file('key'), 'utf8')]);
  expect(certificate).not.toBe(serving.certificate);
  expect(key).not.toBe(serving.key);
  expect(new X509Certificate(certificate).subject).toContain('CN=system:node:n1');
  for (const name of ['kubeconfig', 'crt', 'key']) expect((await stat(file(name))).mode & 0o777, name).toBe(0o600);
  expect(created.at(-1)?.spec?.usages).toContain('digital signature');
  await certificates.stop();
  await api.stop();
});

it('trusts the CAs of the cluster and requests certificates of the signing one', async () => {
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
  const { keys: rotated } = await openKeys(pki, 'https://issuer.example');
  const clock = new FakeClock({ start: Date.now() });
  const api = memoryApi({ clock });
  api.paths.set('/oarlock/v1/ca', { ca: rotated.caBundle });
  const cluster = api.client();
  api.informers.forResource(certificateSigningRequests).addEventHandler({
    onAdd(request) {
      const usages = [request.spec?.signerName === 'kubernetes.io/kubelet-serving' ? ('server' as const) : ('client' as const)];
      const csr = Buffer.from(request.spec?.request ?? '', 'base64').toString('utf8');
      void rotated.sign(csr, { commonName: 'system:node:n1', organizations: ['system:nodes'], usages }).then((certificate) => {
        const status = { certificate: Buffer.from(certificate).toString('base64') };
        return cluster.update(certificateSigningRequests, { ...request, status }, { subresource: 'status' });
      });
    },
  });
  const updates: { readonly cert?: string; readonly ca?: string }[] = [];
  const certificates = new NodeCertificates({
    nodeName: 'n1',
    kubeconfigFile: file('kubeconfig'),
    certificateFile: file('crt'),
    keyFile: file('key'),
    client: cluster,
    address: async () => '127.0.0.1',
    renewed: (credentials) => updates.push(credentials),
    clock,
    log: silentLogger,
  });
  await certificates.start();
  await expect.poll(async () => clock.advance(1_000).then(() => updates.length)).toBe(2);
  expect(updates[0]).toEqual({ ca: rotated.caBundle });
  const signing = new X509Certificate(rotated.caBundle); // the first one of the bundle
  for (const certificate of [updates[1]?.cert ?? '', await readFile(file('crt'), 'utf8')])
    expect(new X509Certificate(certificate).verify(signing.publicKey)).toBe(true);
  const { clusters } = parse(await readFile(file('kubeconfig'), 'utf8')) as { clusters: [{ cluster: Record<string, string> }] };
  expect(Buffer.from(clusters[0].cluster['certificate-authority-data'] ?? '', 'base64').toString()).toBe(rotated.caBundle);
  await certificates.stop();
  await api.stop();
});
