import type { CertificateRequest } from '@oarlock/spi/cluster';

/**
 * The client certificate that the API server presents to kubelets. It names no group: a certificate of group `system:masters` would give the
 * permissions of an administrator to requests that reach another server than a kubelet, such as this API server. ClusterRole
 * `system:kubelet-api-admin` is bound to the user, for the authorization by kubelets.
 */
export const kubeletClientRequest: CertificateRequest = { commonName: 'kube-apiserver-kubelet-client', usages: ['client'] };
