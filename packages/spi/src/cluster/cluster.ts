import { slot } from '@oarlock/kernel/slot';

/** Properties of the cluster and of this process. The composition resolves them before any plugin is created. */
export interface ClusterFacts {
  readonly name: string;
  /** `cluster.local`. */
  readonly domain: string;
  readonly podCIDRs: readonly string[];
  readonly serviceCIDRs: readonly string[];
  /** The first address of the first service range: the Service `kubernetes`. */
  readonly kubernetesServiceIP: string;
  readonly dnsServiceIP: string;
  /** The URL at which other processes reach the API server: `https://10.0.0.1:6443`. */
  readonly serverUrl: string;
  readonly nodePortRange: { readonly from: number; readonly to: number };
  /** Reported on `/version`, on nodes and in user agents: `v1.36.0+oarlock.0.1.0`. */
  readonly version: string;
}
/** Returns the names under which the cluster's own clients reach the API server. Its certificate contains all of them. */
export const apiServerNames = ({ domain }: Pick<ClusterFacts, 'domain'>): readonly string[] => [
  'localhost',
  'kubernetes',
  'kubernetes.default',
  'kubernetes.default.svc',
  `kubernetes.default.svc.${domain}`,
];
/** Annotation of requests for serving certificates of kubelets: the address that the request came from. The API server alone writes it. */
export const sourceAddressAnnotation = 'oarlock.dev/source-address';
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

/**
 * The front-proxy CA and the certificate that it issued to the API server. Only requests with a certificate of this CA may name another user in
 * `X-Remote-*` headers. It is not the cluster CA: otherwise each client certificate with the right common name would be a front proxy.
 */
export interface FrontProxyKeys {
  /** The common name of the client certificate. */
  readonly commonName: string;
  /** PEM of the front-proxy CA certificates. */
  readonly caBundle: string;
  /** PEM of front-proxy CA certificates that a rotation removed. */
  readonly removedCaBundle: string;
  /** Returns the client certificate that the API server presents to extension API servers; renewed before it expires. */
  clientCertificate(): Promise<KeyPair>;
}

/** Certificates and keys of the cluster. Which of them a process has depends on its roles. */
export interface ClusterKeys {
  /** PEM of every CA certificate that clients and servers of this cluster trust. */
  readonly caBundle: string;
  /** PEM of cluster CA certificates that a rotation removed. Absent: none. */
  readonly removedCaBundle?: string;
  /** Absent in a process without the API server role. */
  readonly frontProxy?: FrontProxyKeys;
  /** True if this process has CA certificates but no CA key: `sign` rejects, and certificates from `issue` are not trusted by other components. */
  readonly trustOnly?: boolean;
  /**
   * Creates a key pair with a certificate of the cluster's CA. In a process without the CA key, a server certificate is
   * self-signed and a request for a client certificate rejects.
   */
  issue(request: CertificateRequest): Promise<KeyPair>;
  /** Signs the key of a PKCS #10 request (PEM) and returns the certificate (PEM). The request's own subject and names are ignored in favor of `request`. */
  sign(csr: string, request: CertificateRequest): Promise<string>;
  /** Keys of service account tokens, PEM: `signingKey` signs, all `verifyingKeys` verify. */
  readonly serviceAccount: { readonly issuer: string; readonly signingKey: string; readonly verifyingKeys: readonly string[] };
}
/**
 * Annotation of a Node whose kubelet serves with a certificate of the cluster's CA. The API server then accepts no other
 * certificate at that node's address.
 */
export const kubeletCertificate = { annotation: 'oarlock.dev/kubelet-certificate', ofCluster: 'cluster' } as const;

export const Keys = slot.one<ClusterKeys>('keys/v1');
