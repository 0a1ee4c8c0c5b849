import { createPrivateKey, createPublicKey, generateKeyPairSync, webcrypto, X509Certificate } from 'node:crypto';
import 'reflect-metadata';
import { selfSigned, signLeaf, spkiOf } from '@oarlock/cluster/pki/certificate-writer';
import type { CertificateRequest } from '@oarlock/spi/cluster';
import * as x509 from '@peculiar/x509';
import { describe, expect, it } from 'vitest';

x509.cryptoProvider.set(webcrypto as never);
const pem = { type: 'pkcs8', format: 'pem' } as const;
const elliptic = (namedCurve: string) => generateKeyPairSync('ec', { namedCurve }).privateKey.export(pem) as string;
const rsa = () => generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export(pem) as string;
const leafKey = elliptic('P-256');
const publicKey = spkiOf(createPrivateKey(leafKey));
const leaf = (ca: ReturnType<typeof selfSigned>, more: Partial<CertificateRequest> = {}) =>
  signLeaf(ca, publicKey, { commonName: 'ada', usages: ['client'], ...more });

describe('signLeaf', () => {
  it.each([
    ['P-256', elliptic('P-256')],
    ['P-384', elliptic('P-384')],
    ['P-521', elliptic('P-521')],
    ['RSA', rsa()],
  ])('signs with the key of the CA: %s', (_, key) => {
    const ca = selfSigned('authority', key);
    const authority = new X509Certificate(ca.certificate);
    expect([authority.ca, authority.verify(authority.publicKey), authority.checkIssued(authority)]).toEqual([true, true, true]);
    const signed = new X509Certificate(leaf(ca));
    expect([signed.ca, signed.verify(authority.publicKey), signed.checkIssued(authority)]).toEqual([false, true, true]);
    expect(signed.checkPrivateKey(createPrivateKey(leafKey))).toBe(true);
    expect(signed.verify(createPublicKey(leafKey))).toBe(false);
  });

  it('writes certificates that another library reads', async () => {
    const ca = selfSigned('authority', elliptic('P-256'));
    const request = {
      commonName: 'Zoë',
      organizations: ['a,b', 'system:masters'],
      dnsNames: ['localhost', '*.example.com'],
      ipAddresses: ['10.96.0.1', '::1', 'fd00::1:0:0:2', '::ffff:1.2.3.4', '1:2:3:4:5:6:7:8'],
      usages: ['server', 'client'] as const,
    };
    const read = new x509.X509Certificate(leaf(ca, request));
    const authority = new x509.X509Certificate(ca.certificate);
    expect(await read.verify({ publicKey: authority.publicKey })).toBe(true);
    expect(read.issuer).toBe('CN=authority');
    expect(read.subjectName.toJSON()).toEqual([{ O: ['a,b'] }, { O: ['system:masters'] }, { CN: ['Zoë'] }]);
    expect(read.getExtension(x509.SubjectAlternativeNameExtension)?.names.toJSON()).toEqual([
      { type: 'dns', value: 'localhost' },
      { type: 'dns', value: '*.example.com' },
      ...['10.96.0.1', '::1', 'fd00::1:0:0:2', '::ffff:102:304', '1:2:3:4:5:6:7:8'].map((value) => ({
        type: 'ip',
        value: expect.toSatisfy((text: string) => sameAddress(text, value)),
      })),
    ]);
    expect(read.getExtension(x509.ExtendedKeyUsageExtension)?.usages).toEqual(['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2']);
    expect(read.getExtension(x509.KeyUsagesExtension)?.usages).toBe(
      x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyEncipherment,
    );
    expect(authority.getExtension(x509.KeyUsagesExtension)?.usages).toBe(
      x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign | x509.KeyUsageFlags.digitalSignature,
    );
    const own = authority.getExtension(x509.SubjectKeyIdentifierExtension)?.keyId;
    expect(own).toBe((await x509.SubjectKeyIdentifierExtension.create(authority.publicKey)).keyId);
    expect(read.getExtension(x509.AuthorityKeyIdentifierExtension)?.keyId).toBe(own);
    expect(read.extensions.filter(({ critical }) => critical).map(({ type }) => type)).toEqual(['2.5.29.19', '2.5.29.15']);
    expect(read.rawData.byteLength).toBeGreaterThan(256);
  });

  it('copies the subject of the CA exactly as it is encoded', async () => {
    const keys = await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']);
    const created = await x509.X509CertificateGenerator.createSelfSigned({
      name: 'C=NO, ST=Oslo, OU=x+CN=ours',
      keys: keys as never,
      extensions: [new x509.BasicConstraintsExtension(true)],
    });
    const key = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', (keys as webcrypto.CryptoKeyPair).privateKey)).toString('base64');
    const ca = { certificate: created.toString('pem'), key: `-----BEGIN PRIVATE KEY-----\n${key}\n-----END PRIVATE KEY-----\n` };
    expect(new X509Certificate(leaf(ca)).checkIssued(new X509Certificate(ca.certificate))).toBe(true);
  });

  it('writes years after 2049 with four digits', () => {
    const signed = new X509Certificate(leaf(selfSigned('authority', elliptic('P-256')), { days: 40 * 365 }));
    expect(Math.abs(Date.parse(signed.validTo) - Date.now() - 40 * 365 * 86_400_000)).toBeLessThan(600_000);
  });

  it('rejects names that a certificate cannot contain', () => {
    const ca = selfSigned('authority', elliptic('P-256'));
    expect(() => leaf(ca, { dnsNames: ['zoë.example.com'] })).toThrow(
      'a certificate cannot be for the DNS name "zoë.example.com": ASCII only',
    );
    expect(() => leaf(ca, { ipAddresses: ['10.0.0'] })).toThrow('a certificate cannot be for "10.0.0": not an IP address');
    expect(() => leaf(ca, { ipAddresses: ['fe80::1%eth0'] })).toThrow('not an IP address');
    expect(() => selfSigned('authority', generateKeyPairSync('ed25519').privateKey.export(pem) as string)).toThrow(
      'a key of type ed25519 cannot sign',
    );
  });
});

const sameAddress = (a: string, b: string) =>
  new URL(`http://${a.includes(':') ? `[${a}]` : a}`).hostname === new URL(`http://${b.includes(':') ? `[${b}]` : b}`).hostname;
