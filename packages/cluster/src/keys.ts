import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes, webcrypto, X509Certificate } from 'node:crypto';
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { CertificateRequest, ClusterKeys, KeyPair } from '@oarlock/spi/cluster';

const dayMs = 86_400_000;
const caDays = 3650;
const leafDays = 365;
const backdateMs = 5 * 60_000; // clocks of joining machines may be behind ours
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;

/** The library is large and only needed when something is signed: a warm start signs nothing. */
const x509 = async () => {
  await import('reflect-metadata'); // the library's own container wants it first
  return import('@peculiar/x509');
};

/** Writes so that a reader sees the old content or the new, never half. */
export async function writeAtomic(file: string, content: string, mode = 0o600): Promise<void> {
  const temporary = `${file}.${randomBytes(4).toString('hex')}.tmp`;
  await writeFile(temporary, content, { mode });
  await rename(temporary, file);
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

const newKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;

async function importPair(keyPem: string): Promise<webcrypto.CryptoKeyPair> {
  const key = createPrivateKey(keyPem);
  const publicDer = createPublicKey(key).export({ type: 'spki', format: 'der' });
  return {
    privateKey: await webcrypto.subtle.importKey('pkcs8', key.export({ type: 'pkcs8', format: 'der' }), algorithm, true, ['sign']),
    publicKey: await webcrypto.subtle.importKey('spki', publicDer, algorithm, true, ['verify']),
  };
}

async function selfSigned(commonName: string): Promise<KeyPair> {
  const lib = await x509();
  lib.cryptoProvider.set(webcrypto);
  const key = newKey();
  const keys = await importPair(key);
  const certificate = await lib.X509CertificateGenerator.createSelfSigned({
    serialNumber: serial(),
    name: [{ CN: [commonName] }],
    notBefore: new Date(Date.now() - backdateMs),
    notAfter: new Date(Date.now() + caDays * dayMs),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new lib.BasicConstraintsExtension(true, undefined, true),
      new lib.KeyUsagesExtension(lib.KeyUsageFlags.keyCertSign | lib.KeyUsageFlags.cRLSign | lib.KeyUsageFlags.digitalSignature, true),
      await lib.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: `${certificate.toString('pem')}\n`, key };
}

// the first bit stays clear: serial numbers are positive (RFC 5280, 4.1.2.2)
const serial = () => {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x01;
  return bytes.toString('hex');
};

async function signLeaf(ca: KeyPair, publicKey: webcrypto.CryptoKey, request: CertificateRequest): Promise<string> {
  const lib = await x509();
  lib.cryptoProvider.set(webcrypto);
  const issuer = new lib.X509Certificate(ca.certificate);
  const names = [
    ...(request.dnsNames ?? []).map((value) => ({ type: 'dns' as const, value })),
    ...(request.ipAddresses ?? []).map((value) => ({ type: 'ip' as const, value })),
  ];
  const usages = request.usages.map((usage) => (usage === 'server' ? lib.ExtendedKeyUsage.serverAuth : lib.ExtendedKeyUsage.clientAuth));
  const certificate = await lib.X509CertificateGenerator.create({
    serialNumber: serial(),
    issuer: issuer.subjectName,
    subject: [...(request.organizations ?? []).map((O) => ({ O: [O] })), { CN: [request.commonName] }],
    notBefore: new Date(Date.now() - backdateMs),
    notAfter: new Date(Date.now() + (request.days ?? leafDays) * dayMs),
    signingAlgorithm: algorithm,
    publicKey,
    signingKey: (await importPair(ca.key)).privateKey,
    extensions: [
      new lib.BasicConstraintsExtension(false, undefined, true),
      new lib.KeyUsagesExtension(lib.KeyUsageFlags.digitalSignature | lib.KeyUsageFlags.keyEncipherment, true),
      new lib.ExtendedKeyUsageExtension(usages),
      await lib.SubjectKeyIdentifierExtension.create(publicKey),
      await lib.AuthorityKeyIdentifierExtension.create(await issuer.publicKey.export()),
      ...(names.length > 0 ? [new lib.SubjectAlternativeNameExtension(names)] : []),
    ],
  });
  return `${certificate.toString('pem')}\n`;
}

export interface KeyFiles {
  readonly keys: ClusterKeys;
  readonly directory: string;
}

/**
 * The cluster's keys in `directory` (0700, files 0600): made at the first start, read at every later one. Certificates
 * that were issued for the same request are reused until a month before they end.
 */
export async function openKeys(directory: string, issuer: string): Promise<KeyFiles> {
  const issuedDirectory = join(directory, 'issued');
  await mkdir(issuedDirectory, { recursive: true, mode: 0o700 });
  const ca = await pair(directory, 'ca', () => selfSigned('oarlock-ca'));
  const signingKey = await onlyOnce(join(directory, 'service-account.key'), async () => newKey());
  const publicOf = (key: string) => createPublicKey(key).export({ type: 'spki', format: 'pem' }) as string;

  const issue = async (request: CertificateRequest): Promise<KeyPair> => {
    const digest = createHash('sha256').update(ca.certificate).update(JSON.stringify(request)).digest('hex').slice(0, 16);
    const file = join(issuedDirectory, `${request.commonName.replaceAll(/[^\w.-]/g, '_')}-${digest}.json`);
    const known = keptPair(await readIfThere(file));
    if (known !== undefined) return known;
    const key = newKey();
    const fresh = { certificate: await signLeaf(ca, (await importPair(key)).publicKey, request), key };
    await writeAtomic(file, JSON.stringify(fresh));
    return fresh;
  };
  const sign = async (csr: string, request: CertificateRequest): Promise<string> => {
    const lib = await x509();
    lib.cryptoProvider.set(webcrypto);
    const parsed = new lib.Pkcs10CertificateRequest(csr);
    if (!(await parsed.verify())) throw new Error('the certificate request is not signed by its own key');
    return signLeaf(ca, await parsed.publicKey.export(), request);
  };
  return {
    directory,
    keys: {
      caBundle: ca.certificate,
      issue,
      sign,
      serviceAccount: { issuer, signingKey, verifyingKeys: [publicOf(signingKey), ...(await formerKeys(directory))] },
    },
  };
}

const former = /^service-account\.[\w-]+\.pub$/;

/** Keys that signed tokens before: they verify until their files are taken away. */
async function formerKeys(directory: string): Promise<readonly string[]> {
  const files = (await readdir(directory)).filter((file) => former.test(file)).sort();
  return Promise.all(files.map((file) => readFile(join(directory, file), 'utf8')));
}

/**
 * Puts a new key in the place of the one that signs tokens of service accounts. The old one is kept to verify with, in
 * `service-account.<hash>.pub`. A server that runs takes them up at its next start.
 */
export async function rotateServiceAccountKey(directory: string): Promise<void> {
  const file = join(directory, 'service-account.key');
  const old = await readIfThere(file);
  if (old !== undefined) {
    const pem = createPublicKey(old).export({ type: 'spki', format: 'pem' }) as string;
    const name = createHash('sha256').update(pem).digest('hex').slice(0, 12);
    await writeAtomic(join(directory, `service-account.${name}.pub`), pem);
  }
  await writeAtomic(file, newKey());
}

/** A pair that is whole and good for another month. What was cut off by a crash is made anew. */
function keptPair(text: string | undefined): KeyPair | undefined {
  if (text === undefined) return undefined;
  try {
    const { certificate, key } = JSON.parse(text) as KeyPair;
    const parsed = new X509Certificate(certificate);
    return parsed.checkPrivateKey(createPrivateKey(key)) && Date.parse(parsed.validTo) - Date.now() > 30 * dayMs
      ? { certificate, key }
      : undefined;
  } catch {
    return undefined;
  }
}

async function onlyOnce(file: string, make: () => Promise<string>): Promise<string> {
  const there = await readIfThere(file);
  if (there !== undefined) return there;
  const made = await make();
  await writeAtomic(file, made);
  return made;
}

/** The certificate is written last: a pair without it was never used and is made anew. */
async function pair(directory: string, name: string, make: () => Promise<KeyPair>): Promise<KeyPair> {
  const [certificateFile, keyFile] = [join(directory, `${name}.crt`), join(directory, `${name}.key`)];
  const [certificate, key] = [await readIfThere(certificateFile), await readIfThere(keyFile)];
  if (certificate !== undefined && key !== undefined) return { certificate, key };
  const made = await make();
  await writeAtomic(keyFile, made.key);
  await writeAtomic(certificateFile, made.certificate);
  return made;
}
