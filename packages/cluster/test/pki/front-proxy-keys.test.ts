import { X509Certificate } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openKeys, readKeys, rotateAuthority } from '@oarlock/cluster/pki/keys';
import type { FrontProxyKeys } from '@oarlock/spi/cluster';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { issuePair } from '../../src/pki/key-pair.ts';

let pki: string;
beforeEach(async () => {
  pki = await mkdtemp(join(tmpdir(), 'front-proxy-'));
});
afterEach(() => rm(pki, { recursive: true }));

const open = async () => (await openKeys(pki, 'https://issuer.example')).keys;
async function frontProxy(): Promise<FrontProxyKeys> {
  const { frontProxy: keys } = await open();
  if (keys === undefined) throw new Error('no front-proxy keys');
  return keys;
}
const file = (name: string) => readFile(join(pki, name), 'utf8');
const isIssuedBy = (certificate: string, ca: string) => new X509Certificate(certificate).verify(new X509Certificate(ca).publicKey);
const frontProxyFiles = async () => (await readdir(pki)).filter((name) => name.startsWith('front-proxy')).sort();

describe('front-proxy keys', () => {
  it('are the files that kubeadm creates, readable by their owner only', async () => {
    const keys = await frontProxy();
    expect(await frontProxyFiles()).toEqual([
      'front-proxy-ca.crt',
      'front-proxy-ca.key',
      'front-proxy-client.crt',
      'front-proxy-client.key',
    ]);
    for (const name of await frontProxyFiles()) expect((await stat(join(pki, name))).mode & 0o777, name).toBe(0o600);
    expect(keys.caBundle).toBe(await file('front-proxy-ca.crt'));
    expect(await keys.clientCertificate()).toEqual({
      certificate: await file('front-proxy-client.crt'),
      key: await file('front-proxy-client.key'),
    });
  });

  it('have a CA that is not the cluster CA and has another name', async () => {
    const { caBundle } = await open();
    const keys = await frontProxy();
    const [cluster, front] = [new X509Certificate(caBundle), new X509Certificate(keys.caBundle)];
    expect(front.subject).not.toBe(cluster.subject);
    expect(front.publicKey.equals(cluster.publicKey)).toBe(false);
    expect(isIssuedBy(keys.caBundle, keys.caBundle)).toBe(true);
  });

  it('have a client certificate of the front-proxy CA without groups', async () => {
    const { certificate } = await (await frontProxy()).clientCertificate();
    expect(new X509Certificate(certificate).subject).toBe('CN=front-proxy-client');
    expect(new X509Certificate(certificate).keyUsage).toEqual(['1.3.6.1.5.5.7.3.2']);
    expect(isIssuedBy(certificate, await file('front-proxy-ca.crt'))).toBe(true);
    expect(isIssuedBy(certificate, await file('ca.crt'))).toBe(false);
  });

  it('stay the same at later starts', async () => {
    const first = await (await frontProxy()).clientCertificate();
    expect(await (await frontProxy()).clientCertificate()).toEqual(first);
  });

  it('are added to a directory that has only the cluster CA, whose keys stay', async () => {
    const before = await open();
    for (const name of await frontProxyFiles()) await unlink(join(pki, name));
    // the certificate that earlier versions had from the cluster CA
    const old = await before.issue({ commonName: 'front-proxy-client', usages: ['client'] });
    const oldFile = (await readdir(join(pki, 'issued'))).find((name) => name.startsWith('front-proxy-client-'));
    expect(oldFile).toBeDefined();
    const after = await open();
    expect(after.caBundle).toBe(before.caBundle);
    expect(after.serviceAccount).toEqual(before.serviceAccount);
    expect(await frontProxyFiles()).toHaveLength(4);
    expect(await file('front-proxy-client.crt')).not.toBe(old.certificate);
    expect(await readdir(join(pki, 'issued'))).not.toContain(oldFile);
  });

  it('issue the client certificate again if the cluster CA signed it', async () => {
    const { caBundle } = await open();
    const ca = { certificate: caBundle, key: await file('ca.key') };
    const forged = issuePair(ca, { commonName: 'front-proxy-client', usages: ['client'] });
    await writeFile(join(pki, 'front-proxy-client.crt'), forged.certificate);
    await writeFile(join(pki, 'front-proxy-client.key'), forged.key);
    const { certificate } = await (await frontProxy()).clientCertificate();
    expect(isIssuedBy(certificate, await file('front-proxy-ca.crt'))).toBe(true);
  });

  it('issue the client certificate again when less than a fifth of its lifetime remains or its files do not match', async () => {
    const keys = await frontProxy();
    const ca = { certificate: keys.caBundle, key: await file('front-proxy-ca.key') };
    const ending = issuePair(ca, { commonName: 'front-proxy-client', usages: ['client'], days: 0 });
    await writeFile(join(pki, 'front-proxy-client.crt'), ending.certificate);
    await writeFile(join(pki, 'front-proxy-client.key'), ending.key);
    const renewed = await keys.clientCertificate();
    expect(renewed.certificate).not.toBe(ending.certificate);
    await writeFile(join(pki, 'front-proxy-client.key'), ending.key); // a crash between the two files
    expect((await keys.clientCertificate()).certificate).not.toBe(renewed.certificate);
    await writeFile(join(pki, 'front-proxy-client.crt'), '-----BEGIN');
    expect((await keys.clientCertificate()).certificate).toContain('END CERTIFICATE');
  });

  it('are not created over a CA certificate whose key is missing', async () => {
    await open();
    for (const name of ['ca', 'front-proxy-ca']) {
      const [certificate, key] = [await file(`${name}.crt`), await file(`${name}.key`)];
      await unlink(join(pki, `${name}.key`));
      await expect(open()).rejects.toThrow(`${name}.crt has no key`);
      expect(await file(`${name}.crt`)).toBe(certificate);
      await writeFile(join(pki, `${name}.key`), key);
    }
  });

  it('are absent in a process without the API server', async () => {
    await open();
    expect((await readKeys(pki, '')).frontProxy).toBeUndefined();
  });
});

describe('front-proxy CA rotation', () => {
  it('trusts the next CA, then signs with it, then removes the former one, and leaves the cluster CA alone', async () => {
    const cluster = (await open()).caBundle;
    const first = await frontProxy();
    const old = await first.clientCertificate();
    await rotateAuthority(pki, 'add', 'front-proxy-ca');
    const next = await file('front-proxy-ca-next.crt');
    const added = await frontProxy();
    expect(added.caBundle).toBe(first.caBundle + next);
    expect(await added.clientCertificate()).toEqual(old);

    await rotateAuthority(pki, 'use', 'front-proxy-ca');
    const used = await frontProxy();
    expect(used.caBundle).toBe(next + first.caBundle);
    const { certificate } = await used.clientCertificate();
    expect([isIssuedBy(certificate, next), isIssuedBy(certificate, first.caBundle)]).toEqual([true, false]);

    await rotateAuthority(pki, 'end', 'front-proxy-ca');
    const ended = await frontProxy();
    expect(ended.caBundle).toBe(next);
    expect(ended.removedCaBundle).toBe(first.caBundle);
    const { caBundle, removedCaBundle } = await open();
    expect([caBundle, removedCaBundle]).toEqual([cluster, '']);
  });

  it('collects the certificates of all removed CAs', async () => {
    const removed: string[] = [];
    for (let round = 0; round < 2; round++) {
      removed.push((await frontProxy()).caBundle);
      for (const step of ['add', 'use', 'end'] as const) await rotateAuthority(pki, step, 'front-proxy-ca');
    }
    expect((await frontProxy()).removedCaBundle).toBe(removed.join(''));
  });

  it('names its own command in messages', async () => {
    await open();
    await expect(rotateAuthority(pki, 'use', 'front-proxy-ca')).rejects.toThrow(
      'there is no next CA: `oarlock keys front-proxy-ca add` creates one',
    );
  });
});
