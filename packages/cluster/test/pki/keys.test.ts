import { execFile } from 'node:child_process';
import { createPrivateKey, createPublicKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rm, stat, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { openKeys, readKeys, rotateServiceAccountKey } from '@oarlock/cluster/pki/keys';
import { newCertificateRequest } from '@oarlock/cluster/pki/node-csr';
import type { CertificateRequest, KeyPair } from '@oarlock/spi/cluster';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

const run = promisify(execFile);
const issuer = 'https://kubernetes.default.svc.cluster.local';
let directory: string;
let pki: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'keys-'));
  pki = join(directory, 'pki');
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const open = async () => (await openKeys(pki, issuer)).keys;
const serving: CertificateRequest = {
  commonName: 'kube-apiserver',
  dnsNames: ['kubernetes.default.svc', 'localhost'],
  ipAddresses: ['127.0.0.1', '10.96.0.1', 'fd00::1'],
  usages: ['server'],
};
const client: CertificateRequest = { commonName: 'system:node:n1', organizations: ['system:nodes', 'extra'], usages: ['client'] };

async function openssl(...args: string[]): Promise<string> {
  const { stdout } = await run('openssl', args);
  return stdout;
}
async function files({ certificate, key }: KeyPair): Promise<{ crt: string; key: string }> {
  const [crt, keyFile] = [join(directory, 'a.crt'), join(directory, 'a.key')];
  await writeFile(crt, certificate);
  await writeFile(keyFile, key);
  return { crt, key: keyFile };
}

describe('a first start with a clock that is ahead', () => {
  const hourMs = 3_600_000;
  afterEach(() => vi.useRealTimers());

  it('is rejected as long as the CA is not valid, with the times and the remedy', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 2 * hourMs });
    await open();
    vi.useRealTimers();
    await expect(open()).rejects.toThrow(/ca\.crt is not valid before .*Z, and the clock of this machine is at .*Z: .*Correct the clock/);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 2 * hourMs });
    await expect(open()).resolves.toBeDefined();
  });

  it('issues certificates again that are not valid yet', async () => {
    await open();
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 2 * hourMs });
    const early = await (await open()).issue(serving);
    vi.useRealTimers();
    const issued = await (await open()).issue(serving);
    expect(issued.certificate).not.toBe(early.certificate);
    expect(Date.parse(new X509Certificate(issued.certificate).validFrom)).toBeLessThanOrEqual(Date.now());
  });
});

describe('service account signing key', () => {
  const typeOf = (pem: string) => createPrivateKey(pem).asymmetricKeyType;
  const signing = async (algorithm?: 'ES256' | 'RS256') => (await openKeys(pki, issuer, { algorithm })).keys.serviceAccount;

  it('is for ES256 by default, and is kept without a configured algorithm', async () => {
    const { signingKey } = await signing();
    expect(createPrivateKey(signingKey).asymmetricKeyDetails).toEqual({ namedCurve: 'prime256v1' });
    expect((await signing('ES256')).signingKey).toBe(signingKey);
    await rotateServiceAccountKey(pki, 'RS256');
    expect(typeOf((await signing()).signingKey)).toBe('rsa');
  });

  it('is replaced if another algorithm is configured, and the former key still verifies tokens', async () => {
    const before = await signing();
    const after = await signing('RS256');
    expect(createPrivateKey(after.signingKey).asymmetricKeyDetails).toMatchObject({ modulusLength: 2048 });
    expect(after.verifyingKeys).toHaveLength(2);
    expect(after.verifyingKeys).toContain(before.verifyingKeys[0]);
    expect((await signing('RS256')).signingKey).toBe(after.signingKey);
  });

  it('keeps its type when it is rotated', async () => {
    await signing('RS256');
    await rotateServiceAccountKey(pki);
    expect(typeOf((await signing()).signingKey)).toBe('rsa');
  });
});

describe('rotation of the service account signing key', () => {
  it('is applied by a running server, and the former key still verifies tokens', async () => {
    const files = await openKeys(pki, issuer);
    const { keys } = files;
    const before = keys.serviceAccount;
    const ended = new AbortController();
    const failures: unknown[] = [];
    files.follow(ended.signal, (error) => failures.push(error));
    await rotateServiceAccountKey(pki);
    await expect.poll(() => keys.serviceAccount.signingKey).not.toBe(before.signingKey);
    expect(keys.serviceAccount.verifyingKeys).toHaveLength(2);
    expect(keys.serviceAccount.verifyingKeys).toContain(before.verifyingKeys[0]);
    // a file that cannot be parsed changes nothing
    const current = keys.serviceAccount;
    await writeFile(join(pki, 'service-account.key'), 'no key');
    await expect.poll(() => failures.length).toBeGreaterThan(0);
    expect(keys.serviceAccount).toBe(current);
    ended.abort();
  });
});

describe('the keys of a cluster', () => {
  it('are readable by their owner only', async () => {
    const keys = await open();
    await keys.issue(serving);
    const modes = new Map<string, string>();
    for (const entry of await readdir(pki, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      modes.set(path.slice(pki.length + 1), ((await stat(path)).mode & 0o777).toString(8));
    }
    expect((await stat(pki)).mode & 0o777).toBe(0o700);
    expect(modes.size).toBeGreaterThanOrEqual(5);
    for (const [name, mode] of modes) expect(mode, name).toBe(name === 'issued' ? '700' : '600');
  });

  it('are created once and read at later starts', async () => {
    const first = await open();
    const second = await open();
    expect(second.caBundle).toBe(first.caBundle);
    expect(second.serviceAccount).toEqual(first.serviceAccount);
    expect(await second.issue(serving)).toEqual(await first.issue(serving));
    expect(first.serviceAccount.issuer).toBe(issuer);
    const { publicKey } = {
      publicKey: createPublicKey(createPrivateKey(first.serviceAccount.signingKey)).export({ type: 'spki', format: 'pem' }),
    };
    expect(first.serviceAccount.verifyingKeys).toEqual([publicKey]);
  });

  it('differ between clusters', async () => {
    const one = await open();
    const other = (await openKeys(join(directory, 'other'), issuer)).keys;
    expect(other.caBundle).not.toBe(one.caBundle);
    expect(other.serviceAccount.signingKey).not.toBe(one.serviceAccount.signingKey);
  });

  it('are complete after a crash between two files', async () => {
    const first = await open();
    await unlink(join(pki, 'ca.crt'));
    const second = await open();
    expect(second.caBundle).not.toBe(first.caBundle);
    const pair = await second.issue(serving);
    expect(new X509Certificate(pair.certificate).verify(new X509Certificate(second.caBundle).publicKey)).toBe(true);
  });

  it('sign certificates that openssl accepts for their purpose only', async () => {
    const keys = await open();
    const ca = join(pki, 'ca.crt');
    const server = await files(await keys.issue(serving));
    expect(
      await openssl('verify', '-x509_strict', '-CAfile', ca, '-purpose', 'sslserver', '-verify_hostname', 'localhost', server.crt),
    ).toMatch(/: OK/);
    expect(await openssl('verify', '-CAfile', ca, '-purpose', 'sslserver', '-verify_ip', 'fd00::1', server.crt)).toMatch(/: OK/);
    await expect(openssl('verify', '-CAfile', ca, '-purpose', 'sslclient', server.crt)).rejects.toThrow();
    await expect(openssl('verify', '-CAfile', ca, '-verify_hostname', 'elsewhere', server.crt)).rejects.toThrow();
    const node = await files(await keys.issue(client));
    expect(await openssl('verify', '-x509_strict', '-CAfile', ca, '-purpose', 'sslclient', node.crt)).toMatch(/: OK/);
    await expect(openssl('verify', '-CAfile', ca, '-purpose', 'sslserver', node.crt)).rejects.toThrow();
    expect(await openssl('x509', '-in', node.crt, '-noout', '-subject', '-nameopt', 'RFC2253')).toContain('CN=system:node:n1');
    const text = await openssl('x509', '-in', node.crt, '-noout', '-text');
    expect(text).toMatch(/O = system:nodes, O = extra, CN = system:node:n1/);
    expect(text).toMatch(/CA:FALSE/);
  });

  it('return a certificate with its key', async () => {
    const keys = await open();
    const { certificate, key } = await keys.issue(serving);
    expect(new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key))).toBe(true);
  });

  it('have a self-signed CA that is valid for ten years', async () => {
    const { caBundle } = await open();
    const ca = new X509Certificate(caBundle);
    expect(ca.ca).toBe(true);
    expect(ca.verify(ca.publicKey)).toBe(true);
    expect(Date.parse(ca.validTo) - Date.now()).toBeGreaterThan(9 * 365 * 86_400_000);
    expect(Date.parse(ca.validFrom)).toBeLessThan(Date.now());
  });

  it('use unique, positive serial numbers', async () => {
    const keys = await open();
    const serials = new Set<string>();
    for (let n = 0; n < 20; n++)
      serials.add(new X509Certificate((await keys.issue({ ...client, commonName: `n${n}` })).certificate).serialNumber);
    expect(serials.size).toBe(20);
    for (const serial of serials) expect(Number.parseInt(serial.slice(0, 2), 16)).toBeLessThan(serial.length === 32 ? 0x80 : 0x100);
  });

  it('issue another certificate for another request and when a fifth of the lifetime remains', async () => {
    const keys = await open();
    const kept = await keys.issue(serving);
    expect(await keys.issue({ ...serving, dnsNames: ['other'] })).not.toEqual(kept);
    expect(await keys.issue({ ...serving, usages: ['server', 'client'] })).not.toEqual(kept);
    const short = await keys.issue({ ...client, days: 0 }); // they begin five minutes ago
    expect(await keys.issue({ ...client, days: 0 })).not.toEqual(short);
    const long = await keys.issue({ ...client, days: 31 });
    expect(await keys.issue({ ...client, days: 31 })).toEqual(long);
    expect(Math.round((Date.parse(new X509Certificate(long.certificate).validTo) - Date.now()) / 86_400_000)).toBe(31);
  });

  it('issue a stored certificate again if it cannot be parsed', async () => {
    const keys = await open();
    const kept = await keys.issue(serving);
    const issued = join(pki, 'issued');
    const [name = ''] = await readdir(issued);
    await writeFile(join(issued, name), '{"certificate":"-----BEGIN');
    const fresh = await keys.issue(serving);
    expect(fresh).not.toEqual(kept);
    expect(new X509Certificate(fresh.certificate).checkPrivateKey(createPrivateKey(fresh.key))).toBe(true);
  });

  it('write no file outside their directory, whatever the common name is', async () => {
    const keys = await open();
    await keys.issue({ ...client, commonName: '../../../etc/passwd' });
    for (const name of await readdir(join(pki, 'issued'))) expect(name).toMatch(/^[\w.-]+\.json$/);
  });

  it('report a directory that cannot be used', async () => {
    const file = join(directory, 'file');
    await writeFile(file, '');
    await expect(openKeys(join(file, 'pki'), issuer)).rejects.toThrow(/ENOTDIR|EEXIST/);
  });
});

describe('the keys of a process without the CA key', () => {
  it('issue untrusted serving certificates and no client certificates', async () => {
    const keys = await readKeys(pki, 'the CA of the server');
    expect(keys).toMatchObject({ trustOnly: true, caBundle: 'the CA of the server' });
    const { certificate, key } = await keys.issue(serving);
    const parsed = new X509Certificate(certificate);
    expect(parsed.checkPrivateKey(createPrivateKey(key))).toBe(true);
    expect(parsed.checkHost('localhost')).toBe('localhost');
    expect(parsed.issuer).toBe('CN=kube-apiserver-ca');
    await expect(keys.issue(client)).rejects.toThrow('does not hold the key');
    await expect(keys.sign('', client)).rejects.toThrow('does not hold the key');
  });
});

describe('sign', () => {
  it('certifies the key of the request with the names of the caller', async () => {
    const keys = await open();
    const { key, csr } = await newCertificateRequest({ nodeName: 'liar' });
    const certificate = new X509Certificate(await keys.sign(csr, { ...client, dnsNames: ['n1'], ipAddresses: ['10.0.0.7'] }));
    expect(certificate.checkPrivateKey(createPrivateKey(key))).toBe(true);
    expect(certificate.subject).toBe('O=system:nodes\nO=extra\nCN=system:node:n1');
    expect(certificate.subjectAltName).toBe('DNS:n1, IP Address:10.0.0.7');
    expect(certificate.verify(new X509Certificate(keys.caBundle).publicKey)).toBe(true);
  });

  it('accepts requests of openssl with an RSA key and ignores their extensions', async () => {
    const keys = await open();
    const file = join(directory, 'r.csr');
    await run('openssl', [
      'req',
      '-new',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      join(directory, 'r.key'),
      '-out',
      file,
      '-subj',
      '/O=system:masters/CN=admin',
      '-addext',
      'basicConstraints=CA:TRUE',
      '-addext',
      'subjectAltName=DNS:evil',
    ]);
    const certificate = new X509Certificate(await keys.sign(await readFile(file, 'utf8'), client));
    expect(certificate.subject).toBe('O=system:nodes\nO=extra\nCN=system:node:n1');
    expect(certificate.ca).toBe(false);
    expect(certificate.subjectAltName).toBeUndefined();
  });

  it('rejects data that is not a request, and requests that their own key did not sign', async () => {
    const keys = await open();
    const { csr } = await newCertificateRequest({ nodeName: 'n' });
    const der = Buffer.from(csr.replaceAll(/-----[A-Z ]+-----|\s/g, ''), 'base64');
    der[der.length - 3] = (der[der.length - 3] ?? 0) ^ 1;
    const forged = `-----BEGIN CERTIFICATE REQUEST-----\n${der.toString('base64')}\n-----END CERTIFICATE REQUEST-----\n`;
    for (const bad of [
      '',
      'hello',
      forged,
      (await keys.issue(serving)).certificate,
      generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ type: 'spki', format: 'pem' }) as string,
    ]) {
      await expect(keys.sign(bad, client)).rejects.toThrow();
    }
  });
});

describe('an atomic write', () => {
  it('leaves the old or the new content and no other file', async () => {
    const file = join(directory, 'x');
    await writeAtomic(file, 'one');
    await Promise.all(Array.from({ length: 20 }, (_, n) => writeAtomic(file, `content ${n}`.repeat(1_000))));
    expect(await readFile(file, 'utf8')).toMatch(/^(content \d+)\1{999}$/);
    expect(await readdir(directory)).toEqual(['x']);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  });

  it('replaces a file that others could read with a private one', async () => {
    const file = join(directory, 'x');
    await writeFile(file, 'open');
    await chmod(file, 0o644);
    await writeAtomic(file, 'closed');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  });
});
