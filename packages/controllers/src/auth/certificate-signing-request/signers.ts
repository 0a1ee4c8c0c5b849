import type { CsrContent } from './csr-content.ts';

export const clientKubelet = 'kubernetes.io/kube-apiserver-client-kubelet';
export const servingKubelet = 'kubernetes.io/kubelet-serving';
const nodePrefix = 'system:node:';
const nodes = 'system:nodes';
const masters = 'system:masters';

/**
 * A function that returns why a Kubernetes signer rejects a request, or undefined if the signer accepts the request.
 * https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers
 */
export type CsrRejection = (content: CsrContent, usages: readonly string[]) => string | undefined;

const hasOnlyUsages = (usages: readonly string[], allowed: readonly string[], needed: readonly string[]): boolean =>
  usages.every((usage) => allowed.includes(usage)) && needed.every((usage) => usages.includes(usage));
const isNode = ({ commonName, organizations }: CsrContent) =>
  organizations.length === 1 && organizations[0] === nodes && commonName.startsWith(nodePrefix) && commonName.length > nodePrefix.length;

const client: CsrRejection = (_content, usages) => {
  const invalid = usages.find((usage) => !['digital signature', 'key encipherment', 'client auth'].includes(usage));
  if (invalid !== undefined) return `invalid usage for client certificate: ${invalid}`;
  return usages.includes('client auth') ? undefined : 'missing required usage for client certificate: client auth';
};

export const kubeletClient: CsrRejection = (content, usages) => {
  if (content.organizations.length !== 1 || content.organizations[0] !== nodes) return 'subject organization is not system:nodes';
  if (content.dnsNames.length > 0) return 'DNS subjectAltNames are not allowed';
  if (content.emails.length > 0) return 'Email subjectAltNames are not allowed';
  if (content.ipAddresses.length > 0) return 'IP subjectAltNames are not allowed';
  if (content.uris.length > 0) return 'URI subjectAltNames are not allowed';
  if (!isNode(content)) return 'subject common name does not begin with system:node:';
  return hasOnlyUsages(usages, ['digital signature', 'key encipherment', 'client auth'], ['digital signature', 'client auth'])
    ? undefined
    : 'usages did not match [client auth digital signature key encipherment]';
};

export const kubeletServing: CsrRejection = (content, usages) => {
  if (content.organizations.length !== 1 || content.organizations[0] !== nodes) return 'subject organization is not system:nodes';
  if (content.dnsNames.length === 0 && content.ipAddresses.length === 0) return 'DNS or IP subjectAltName is required';
  if (content.emails.length > 0) return 'Email subjectAltNames are not allowed';
  if (content.uris.length > 0) return 'URI subjectAltNames are not allowed';
  if (!hasOnlyUsages(usages, ['digital signature', 'key encipherment', 'server auth'], ['digital signature', 'server auth']))
    return 'usages did not match [digital signature key encipherment server auth]';
  return isNode(content) ? undefined : 'subject common name does not begin with system:node:';
};

/** Rejects requests for the group `system:masters`: members pass every authorizer, and a certificate cannot be revoked. */
const neverMasters =
  (rejects: CsrRejection): CsrRejection =>
  (content, usages) =>
    content.organizations.includes(masters) ? `subject organization ${masters} is not allowed` : rejects(content, usages);

/** The signers of certificates.k8s.io/v1, without `kubernetes.io/legacy-unknown`, which API validation of v1 rejects. */
export const signers: ReadonlyMap<string, CsrRejection> = new Map([
  ['kubernetes.io/kube-apiserver-client', neverMasters(client)],
  [clientKubelet, neverMasters(kubeletClient)],
  [servingKubelet, neverMasters(kubeletServing)],
]);
