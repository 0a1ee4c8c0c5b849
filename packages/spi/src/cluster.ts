import { slot } from '@oarlock/kernel/slot';

/** Facts of the cluster and of this process, settled by the composition before anything starts. */
export interface ClusterFacts {
  readonly name: string;
  /** `cluster.local`. */
  readonly domain: string;
  readonly podCIDRs: readonly string[];
  readonly serviceCIDRs: readonly string[];
  /** The first address of the first service range: the Service `kubernetes`. */
  readonly kubernetesServiceIP: string;
  readonly dnsServiceIP: string;
  /** How other processes reach the API server: `https://10.0.0.1:6443`. */
  readonly serverUrl: string;
  readonly nodePortRange: { readonly from: number; readonly to: number };
  /** Stated on `/version`, on nodes and in user agents: `v1.36.0+oarlock.0.1.0`. */
  readonly version: string;
}
/** Names under which the cluster's own clients reach the API server: nobody else is certified for them. */
export const apiServerNames = ({ domain }: Pick<ClusterFacts, 'domain'>): readonly string[] => [
  'localhost',
  'kubernetes',
  'kubernetes.default',
  'kubernetes.default.svc',
  `kubernetes.default.svc.${domain}`,
];
export const Cluster = slot.one<ClusterFacts>('cluster/v1');

export interface KeyPair {
  /** PEM. */ readonly certificate: string /** PEM, PKCS #8. */;
  readonly key: string;
}
export interface CertificateRequest {
  readonly commonName: string;
  readonly organizations?: readonly string[];
  readonly dnsNames?: readonly string[];
  readonly ipAddresses?: readonly string[];
  readonly usages: readonly ('server' | 'client')[];
  readonly days?: number;
}

/** The cluster's keys. Only a process with the roles that sign or verify has all of it. */
export interface ClusterKeys {
  /** PEM of every CA certificate that clients and servers of this cluster trust. */
  readonly caBundle: string;
  /** This process has certificates to trust only: `sign` always rejects, and what `issue` gives is trusted by nobody. */
  readonly trustOnly?: boolean;
  /** Signs a new key pair with the cluster's CA. Where this process does not hold its key, servers get one that nobody knows; rejects for clients. */
  issue(request: CertificateRequest): Promise<KeyPair>;
  /** Signs for the key of a PKCS #10 request (PEM); its own subject and names are ignored in favour of `request`. Returns PEM. */
  sign(csr: string, request: CertificateRequest): Promise<string>;
  /** Service account tokens: the first key signs, all verify. PEM. */
  readonly serviceAccount: { readonly issuer: string; readonly signingKey: string; readonly verifyingKeys: readonly string[] };
}
/** Noted on a Node whose kubelet shows a certificate that the cluster's CA vouches for: the API server then speaks to no other at its address. */
export const kubeletCertificate = { annotation: 'oarlock.dev/kubelet-certificate', ofCluster: 'cluster' } as const;

export const Keys = slot.one<ClusterKeys>('keys/v1');
