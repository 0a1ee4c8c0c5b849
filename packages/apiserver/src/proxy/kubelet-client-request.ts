import type { CertificateRequest } from '@oarlock/spi/cluster';

/**
 * The request for the client certificate that the API server presents to kubelets. The certificate contains no group: with the group
 * `system:masters`, a request that reaches another server than a kubelet, such as this API server, would have the permissions of an administrator.
 * The ClusterRole `system:kubelet-api-admin` is bound to the user, so that kubelets authorize the requests.
 */
export const kubeletClientRequest: CertificateRequest = { commonName: 'kube-apiserver-kubelet-client', usages: ['client'] };
