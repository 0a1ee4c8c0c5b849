import { certificateSigningRequests } from '@oarlock/api/resources';
import type { CertificateSigningRequest } from '@oarlock/api/types/certificates-v1';
import type { Client } from '@oarlock/spi/client';
import type { KeyPair } from '@oarlock/spi/cluster';
import { newRequest, type NodeSubject } from './node-keys.ts';

/** What a node asks to have certified, and by which of Kubernetes' signers. */
const purposes = {
  client: { signerName: 'kubernetes.io/kube-apiserver-client-kubelet', usage: 'client auth' },
  serving: { signerName: 'kubernetes.io/kubelet-serving', usage: 'server auth' },
} as const;

export interface CertifyOptions {
  readonly client: Client;
  readonly purpose: keyof typeof purposes;
  readonly subject: NodeSubject;
  /** Ends the wait for whoever approves and signs. */
  readonly signal: AbortSignal;
  /** The request has been made, and is waited for. */
  readonly asked?: (name: string) => void;
}

/**
 * A new key, certified through a CertificateSigningRequest, as kubelets of Kubernetes do.
 * @throws Error when the request is denied, fails or is taken away, or the signal ends the wait; StatusError where it may not be made
 */
export async function certify({ client, purpose, subject, signal, asked }: CertifyOptions): Promise<KeyPair> {
  const { signerName, usage } = purposes[purpose];
  const { key, csr } = await newRequest(subject);
  const made = await client.create(
    certificateSigningRequests,
    {
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { generateName: `node-csr-${purpose}-` },
      spec: { signerName, usages: ['digital signature', usage], request: Buffer.from(csr).toString('base64') },
    },
    { signal },
  );
  const name = made.metadata?.name ?? '';
  asked?.(name);
  for (let known: CertificateSigningRequest = made; ; known = await client.get(certificateSigningRequests, { name }, { signal })) {
    const certificate = answerOf(known) ?? (await answered(client, known, signal));
    if (certificate !== undefined) return { key, certificate };
    signal.throwIfAborted();
  }
}

/** Follows the request from what is known of it; undefined when the server ends the watch. */
async function answered(client: Client, { metadata }: CertificateSigningRequest, signal: AbortSignal): Promise<string | undefined> {
  const { name = '', resourceVersion = '' } = metadata ?? {};
  const events = client.watch(certificateSigningRequests, { fieldSelector: `metadata.name=${name}`, resourceVersion, signal });
  for await (const batch of events) {
    for (const { type, object } of batch) {
      if (type === 'DELETED') throw new Error(`the certificate request ${name} was taken away`);
      const certificate = type === 'BOOKMARK' ? undefined : answerOf(object);
      if (certificate !== undefined) return certificate;
    }
  }
  return undefined;
}

/** PEM. @throws Error when there will be none */
function answerOf({ metadata, status }: CertificateSigningRequest): string | undefined {
  const no = status?.conditions?.find(({ type }) => type === 'Denied' || type === 'Failed');
  if (no !== undefined)
    throw new Error(`the certificate request ${metadata?.name} is ${no.type.toLowerCase()}: ${no.message ?? no.reason ?? ''}`);
  const { certificate = '' } = status ?? {};
  return certificate === '' ? undefined : Buffer.from(certificate, 'base64').toString('utf8');
}
