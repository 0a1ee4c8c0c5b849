import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import type { CertificateRequest, ClusterKeys, FrontProxyKeys, KeyPair } from '@oarlock/spi/cluster';
import * as x509 from '@peculiar/x509';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const dayMs = 86_400_000;
x509.cryptoProvider.set(webcrypto);

const newPair = () => webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']) as Promise<webcrypto.CryptoKeyPair>;
async function pem(key: webcrypto.CryptoKey): Promise<string> {
  return x509.PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', key), 'PRIVATE KEY');
}

export interface Validity {
  readonly from?: number;
  readonly to?: number;
}
export interface TestKeys extends ClusterKeys {
  readonly frontProxy: FrontProxyKeys;
  /** Issues a certificate of the front-proxy CA. */
  issueFrontProxy(request: CertificateRequest): Promise<KeyPair>;
  /** `issue` with other dates, in days from now. */
  issueWithin(request: CertificateRequest, validity: Validity): Promise<KeyPair>;
}

interface TestAuthority {
  readonly caBundle: string;
  issueWithin(request: CertificateRequest, validity: Validity): Promise<KeyPair>;
}

async function testAuthority(name: string): Promise<TestAuthority> {
  const ca = await newPair();
  const caCertificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: '01',
    name: `CN=${name}`,
    notBefore: new Date(Date.now() - 30 * dayMs),
    notAfter: new Date(Date.now() + 30 * dayMs),
    signingAlgorithm: algorithm,
    keys: ca,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.digitalSignature, true),
    ],
  });
  const issueWithin = async (request: CertificateRequest, { from = -1, to = request.days ?? 10 }: Validity): Promise<KeyPair> => {
    const keys = await newPair();
    const names = [
      ...(request.dnsNames ?? []).map((value) => ({ type: 'dns' as const, value })),
      ...(request.ipAddresses ?? []).map((value) => ({ type: 'ip' as const, value })),
    ];
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: webcrypto.randomUUID().replaceAll('-', ''),
      issuer: caCertificate.subjectName,
      subject: [...(request.organizations ?? []).map((O) => ({ O: [O] })), { CN: [request.commonName] }],
      notBefore: new Date(Date.now() + from * dayMs),
      notAfter: new Date(Date.now() + to * dayMs),
      signingAlgorithm: algorithm,
      publicKey: keys.publicKey,
      signingKey: ca.privateKey,
      extensions: [
        new x509.ExtendedKeyUsageExtension(
          request.usages.map((usage) => (usage === 'server' ? x509.ExtendedKeyUsage.serverAuth : x509.ExtendedKeyUsage.clientAuth)),
        ),
        ...(names.length > 0 ? [new x509.SubjectAlternativeNameExtension(names)] : []),
      ],
    });
    return { certificate: certificate.toString('pem'), key: await pem(keys.privateKey) };
  };
  return { caBundle: caCertificate.toString('pem'), issueWithin };
}

/** Creates keys with a cluster CA and a front-proxy CA that no other test has. */
export async function testKeys(name = 'test-ca'): Promise<TestKeys> {
  const [{ caBundle, issueWithin }, frontProxy] = await Promise.all([testAuthority(name), testAuthority(`${name}-front-proxy`)]);
  const commonName = 'front-proxy-client';
  const issueFrontProxy = (request: CertificateRequest) => frontProxy.issueWithin(request, {});
  return {
    caBundle,
    frontProxy: {
      commonName,
      caBundle: frontProxy.caBundle,
      removedCaBundle: '',
      clientCertificate: () => issueFrontProxy({ commonName, usages: ['client'] }),
    },
    issueFrontProxy,
    issueWithin,
    issue: (request) => issueWithin(request, {}),
    sign: () => Promise.reject(new Error('these keys sign no requests')),
    serviceAccount: { issuer: 'test', signingKey: '', verifyingKeys: [] },
  };
}
