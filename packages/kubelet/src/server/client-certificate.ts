import type { TLSSocket } from 'node:tls';

/** The API server's own name towards kubelets. */
const apiServer = 'kube-apiserver-kubelet-client';
const masters = 'system:masters';

export type ClientVerdict = 'allowed' | 'unknown' | 'forbidden';

/** Whether whoever is at the other end may use the kubelet's API: the API server, or an administrator, by a certificate of the cluster's CA. */
export function judgeClient(socket: TLSSocket): ClientVerdict {
  if (!socket.authorized) return 'unknown';
  const certificate = socket.getPeerCertificate();
  // a connection without a certificate is authorized for nothing, whatever it says of itself
  if (Object.keys(certificate).length === 0) return 'unknown';
  const { CN, O } = certificate.subject;
  const organizations: readonly string[] = Array.isArray(O) ? O : O === undefined ? [] : [O];
  return organizations.includes(masters) || CN === apiServer ? 'allowed' : 'forbidden';
}
