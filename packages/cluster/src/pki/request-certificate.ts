import { createPrivateKey, X509Certificate } from 'node:crypto';
import { certificateSigningRequests } from '@oarlock/api/resources';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import { retryUnavailable, type RetryOptions } from '@oarlock/client/http/retry-unavailable';
import type { Client } from '@oarlock/spi/client';
import type { KeyPair } from '@oarlock/spi/cluster';
import { areCertificates } from './ca-hash.ts';
import { newCertificateRequest, type NodeSubject } from './node-csr.ts';

/** The signer and key usage for each purpose of a node's certificate. */
const purposes = {
  client: { signerName: 'kubernetes.io/kube-apiserver-client-kubelet', usage: 'client auth' },
  serving: { signerName: 'kubernetes.io/kubelet-serving', usage: 'server auth' },
} as const;

export interface RequestCertificateOptions {
  readonly client: Client;
  readonly purpose: keyof typeof purposes;
  readonly subject: NodeSubject;
  /** Aborts the wait for approval and signing. */
  readonly signal: AbortSignal;
  /** Called with the name of the CertificateSigningRequest after it was created. */
  readonly onCreated?: (name: string) => void;
  /** How requests are repeated while the API server is unavailable. Absent: they are not, because the caller tries again. */
  readonly retry?: RetryOptions;
}

/**
 * Generates a key, creates a CertificateSigningRequest and waits until it is approved and signed, as the kubelet does.
 * @throws Error if the CertificateSigningRequest is denied, fails or is deleted; StatusError if the API server rejects it; the signal's reason if
 * `signal` aborts
 */
export async function requestCertificate({
  client,
  purpose,
  subject,
  signal,
  onCreated: asked,
  retry,
}: RequestCertificateOptions): Promise<KeyPair> {
  const { signerName, usage } = purposes[purpose];
  const { key, csr } = await newCertificateRequest(subject);
  const repeat = <T>(call: () => Promise<T>) => (retry === undefined ? call() : retryUnavailable(call, { ...retry, signal }));
  const created = await repeat(() =>
    client.create(
      certificateSigningRequests,
      {
        apiVersion: 'certificates.k8s.io/v1',
        kind: 'CertificateSigningRequest',
        metadata: { generateName: `node-csr-${purpose}-` },
        spec: { signerName, usages: ['digital signature', usage], request: Buffer.from(csr).toString('base64') },
      },
      { signal },
    ),
  );
  const name = created.metadata?.name ?? '';
  asked?.(name);
  let known: CertificateSigningRequest | undefined = created;
  for (;;) {
    const certificate = await repeat(async () => {
      const current = known ?? (await client.get(certificateSigningRequests, { name }, { signal }));
      known = undefined;
      return issuedCertificate(current) ?? (await watchCertificate(client, current, signal));
    });
    if (certificate !== undefined) return { key, certificate: requireOwn(certificate, key) };
    signal.throwIfAborted();
  }
}

/** Returns the certificate. @throws Error if it does not belong to the key: the node could not start with them */
function requireOwn(certificate: string, key: string): string {
  if (!areCertificates(certificate)) throw new Error('the signer returned no certificate in PEM');
  if (!new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key)))
    throw new Error('the signer returned the certificate of another key');
  return certificate;
}

/** Watches a CertificateSigningRequest until it is signed, and returns the certificate in PEM. Returns undefined if the server ends the watch. */
async function watchCertificate(client: Client, { metadata }: CertificateSigningRequest, signal: AbortSignal): Promise<string | undefined> {
  const { name = '', resourceVersion = '' } = metadata ?? {};
  const events = client.watch(certificateSigningRequests, { fieldSelector: `metadata.name=${name}`, resourceVersion, signal });
  for await (const batch of events) {
    for (const { type, object } of batch) {
      if (type === 'DELETED') throw new Error(`the certificate request ${name} was taken away`);
      const certificate = type === 'BOOKMARK' ? undefined : issuedCertificate(object);
      if (certificate !== undefined) return certificate;
    }
  }
  return undefined;
}

/** Returns the certificate in PEM, or undefined if the request is pending. @throws Error if the request is denied or has failed */
function issuedCertificate({ metadata, status }: CertificateSigningRequest): string | undefined {
  const failure = status?.conditions?.find(({ type }) => type === 'Denied' || type === 'Failed');
  if (failure !== undefined)
    throw new Error(
      `the certificate request ${metadata?.name} is ${failure.type.toLowerCase()}: ${failure.message ?? failure.reason ?? ''}`,
    );
  const { certificate = '' } = status ?? {};
  return certificate === '' ? undefined : Buffer.from(certificate, 'base64').toString('utf8');
}
