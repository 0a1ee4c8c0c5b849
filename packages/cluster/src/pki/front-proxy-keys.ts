import { X509Certificate } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { CertificateRequest, FrontProxyKeys, KeyPair } from '@oarlock/spi/cluster';
import { openAuthority, readPair, readRemovedAuthorities, writePair } from './authorities.ts';
import { selfSigned } from './certificate-writer.ts';
import { isUsable, issuePair, newKey } from './key-pair.ts';

/** The subject of the front-proxy CA. It differs from the subject of the cluster CA, so that verifiers choose the right issuer. */
export const frontProxyCaName = 'oarlock-front-proxy-ca';
/** The common name of the client certificate, which is also the name of its files, as in kubeadm. */
const clientName = 'front-proxy-client';
const clientRequest: CertificateRequest = { commonName: clientName, usages: ['client'] };
/** Matches the files of front-proxy client certificates that the cluster CA issued, from before the front-proxy CA existed. */
const formerCertificate = /^front-proxy-client-[0-9a-f]{16}\.json$/;

/**
 * Opens the front-proxy CA and its client certificate: `front-proxy-ca.{crt,key}` and `front-proxy-client.{crt,key}`, as in kubeadm. Creates
 * missing files. Issues a new client certificate if another CA signed the present one or if less than a fifth of its lifetime remains.
 * @throws AuthorityError if a rotation step was interrupted
 */
export async function openFrontProxyKeys(directory: string): Promise<FrontProxyKeys> {
  const { signing, bundle } = await openAuthority(directory, 'front-proxy-ca', () => selfSigned(frontProxyCaName, newKey()));
  await removeFormerCertificates(join(directory, 'issued'));
  const removedCaBundle = await readRemovedAuthorities(directory, 'front-proxy-ca');
  const clientCertificate = async (): Promise<KeyPair> => {
    const stored = await readPair(directory, clientName);
    if (stored !== undefined && isUsable(stored) && isIssuedBy(stored, signing)) return stored;
    const pair = issuePair(signing, clientRequest);
    await writePair(directory, clientName, pair);
    return pair;
  };
  await clientCertificate();
  return { commonName: clientName, caBundle: bundle, removedCaBundle, clientCertificate };
}

function isIssuedBy({ certificate }: KeyPair, ca: KeyPair): boolean {
  const [issued, issuer] = [new X509Certificate(certificate), new X509Certificate(ca.certificate)];
  return issued.checkIssued(issuer) && issued.verify(issuer.publicKey);
}

/** Deletes the keys of the front-proxy client certificates that the cluster CA issued. */
async function removeFormerCertificates(issuedDirectory: string): Promise<void> {
  for (const file of await readdir(issuedDirectory))
    if (formerCertificate.test(file)) await rm(join(issuedDirectory, file), { force: true });
}
