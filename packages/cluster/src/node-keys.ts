import { generateKeyPairSync, webcrypto, createPublicKey } from 'node:crypto';
import { isIP } from 'node:net';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;

/** Of the key of a node: who it is, and the names and addresses under which it serves. */
export interface NodeSubject {
  readonly nodeName: string;
  readonly names?: readonly string[];
}

/** A new key and a request (PKCS #10, PEM) to have it certified for a node. */
export async function newRequest({ nodeName, names = [] }: NodeSubject): Promise<{ readonly key: string; readonly csr: string }> {
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
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: [{ O: ['system:nodes'] }, { CN: [`system:node:${nodeName}`] }],
    keys,
    signingAlgorithm: algorithm,
    extensions:
      names.length === 0
        ? []
        : [new x509.SubjectAlternativeNameExtension(names.map((value) => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value })))],
  });
  return { key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string, csr: request.toString('pem') };
}
