import { generateKeyPairSync, webcrypto, createPublicKey } from 'node:crypto';
import { isIP } from 'node:net';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;

/** The node for which a certificate is requested, and the names and addresses on which the node serves. */
export interface NodeSubject {
  readonly nodeName: string;
  readonly names?: readonly string[];
}

/** Generates a key, and a PKCS #10 request in PEM for a node certificate with this key. */
export async function newCertificateRequest({
  nodeName,
  names = [],
}: NodeSubject): Promise<{ readonly key: string; readonly csr: string }> {
  await import('reflect-metadata'); // the dependency injection of @peculiar/x509 requires it to be loaded first
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
