import type { CertificateRequest } from '@oarlock/spi/cluster';

/**
 * The client certificate that the API server shows to kubelets. It names no group: a certificate of group `system:masters` would make whatever a
 * request reaches in place of a kubelet, this API server included, obey it as an administrator. The user is bound to ClusterRole
 * `system:kubelet-api-admin`, by which kubelets decide.
 */
export const kubeletClientRequest: CertificateRequest = { commonName: 'kube-apiserver-kubelet-client', usages: ['client'] };
