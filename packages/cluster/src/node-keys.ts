import { generateKeyPairSync, webcrypto, createPublicKey } from 'node:crypto';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;

/** A new key and a request (PKCS #10, PEM) to have it certified. */
export async function newRequest(commonName: string): Promise<{ readonly key: string; readonly csr: string }> {
  await import('reflect-metadata'); // the library's own container wants it first
  const x509 = await import('@peculiar/x509');
  x509.cryptoProvider.set(webcrypto);
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const keys = {
    privateKey: await webcrypto.subtle.importKey('pkcs8', privateKey.export({ type: 'pkcs8', format: 'der' }), algorithm, true, ['sign']),
    publicKey: await webcrypto.subtle.importKey(
      'spki',
      createPublicKey(privateKey).export({ type: 'spki', format: 'der' }),
      algorithm,
      true,
      ['verify'],
    ),
  };
  const request = await x509.Pkcs10CertificateRequestGenerator.create({ name: [{ CN: [commonName] }], keys, signingAlgorithm: algorithm });
  return { key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string, csr: request.toString('pem') };
}
