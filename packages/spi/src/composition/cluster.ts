import type { KeyObject } from 'node:crypto';
import { slot } from '@oarlock/kernel/slot';

/** Properties of the cluster and of this process. The composition resolves them before any plugin is created. */
export interface ClusterFacts {
  readonly name: string;
  /** DNS domain of the cluster, such as `cluster.local`. */
  readonly domain: string;
  readonly podCIDRs: readonly string[];
  readonly serviceCIDRs: readonly string[];
  /** Cluster IP of the Service `kubernetes`: the first address of the first service CIDR. */
  readonly kubernetesServiceIP: string;
  readonly dnsServiceIP: string;
  /** The URL at which other processes reach the API server, such as `https://10.0.0.1:6443`. */
  readonly serverUrl: string;
  readonly nodePortRange: { readonly from: number; readonly to: number };
  /** Addresses of this host that only this cluster uses, if its pods and Services have loopback addresses. */
  readonly loopback?: LoopbackAddresses;
  /** Version such as `v1.36.0+oarlock.0.1.0`, reported on `/version`, on nodes and in user agents. */
  readonly version: string;
  /** Feature gates that differ from their defaults, or repeat them, by name. Use `FeatureGates` of `@oarlock/api` to read the values. */
  readonly featureGates?: Readonly<Record<string, boolean>>;
  /** The version of Kubernetes that the cluster emulates, such as `1.35`; absent for the current version. */
  readonly emulationVersion?: string;
}
/** Several clusters of one host have different loopback addresses. */
export interface LoopbackAddresses {
  /** The address of the node, at which node ports listen. */
  readonly nodeAddress: string;
  /** The range of the addresses of load balancers. */
  readonly loadBalancerCIDR: string;
}
/** Returns the names under which clients in the cluster reach the API server. The API server's certificate contains all of these names. */
export const apiServerNames = ({ domain }: Pick<ClusterFacts, 'domain'>): readonly string[] => [
  'localhost',
  'kubernetes',
  'kubernetes.default',
  'kubernetes.default.svc',
  `kubernetes.default.svc.${domain}`,
];
/** Annotation of requests for kubelet serving certificates with the source address of the request. Only the API server writes this annotation. */
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
 * The front-proxy CA, and the client certificate that this CA issued to the API server. Only requests with a certificate of this CA may name another
 * user in `X-Remote-*` headers. This CA must not be the cluster CA: otherwise each client certificate with the right common name would be a front
 * proxy.
 */
export interface FrontProxyKeys {
  /** The common name of the client certificate. */
  readonly commonName: string;
  /** PEM of the front-proxy CA certificates. */
  readonly caBundle: string;
  /** PEM of front-proxy CA certificates that a rotation removed. */
  readonly removedCaBundle: string;
  /** Returns the client certificate that the API server presents to extension API servers, renewing the certificate before it expires. */
  clientCertificate(): Promise<KeyPair>;
}

/** The JWS algorithm of a service account token (RFC 7518). */
export type TokenAlgorithm = 'ES256' | 'ES384' | 'ES512' | 'RS256';
const curves: Readonly<Record<string, TokenAlgorithm>> = { prime256v1: 'ES256', secp384r1: 'ES384', secp521r1: 'ES512' };

/** Returns the algorithm of tokens that a key signs or verifies. @throws Error if the key is of another type, as upstream */
export function tokenAlgorithmOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): TokenAlgorithm {
  const algorithm = asymmetricKeyType === 'rsa' ? 'RS256' : curves[asymmetricKeyDetails?.namedCurve ?? ''];
  if (algorithm === undefined)
    throw new Error(`a key of type ${asymmetricKeyType ?? 'unknown'} cannot sign service account tokens: use RSA, P-256, P-384 or P-521`);
  return algorithm;
}

/** Certificates and keys of the cluster. The roles of a process determine which of them the process has. */
export interface ClusterKeys {
  /** PEM of every CA certificate that clients and servers of this cluster trust. */
  readonly caBundle: string;
  /** PEM of cluster CA certificates that a rotation removed; absent if there are none. */
  readonly removedCaBundle?: string;
  /** Front-proxy keys; absent in a process without the API server role. */
  readonly frontProxy?: FrontProxyKeys;
  /** True if this process has CA certificates but no CA key: `sign` rejects, and certificates from `issue` are not trusted by other components. */
  readonly trustOnly?: boolean;
  /**
   * Creates a key pair with a certificate of the cluster's CA. In a process without the CA key, a server certificate is
   * self-signed and a request for a client certificate rejects.
   */
  issue(request: CertificateRequest): Promise<KeyPair>;
  /**
   * Signs the key of a PKCS #10 request (PEM) and returns the certificate (PEM). The request's own subject and names are ignored in favor of
   * `request`.
   */
  sign(csr: string, request: CertificateRequest): Promise<string>;
  /** Keys of service account tokens, PEM: `signingKey` signs, all `verifyingKeys` verify. */
  readonly serviceAccount: { readonly issuer: string; readonly signingKey: string; readonly verifyingKeys: readonly string[] };
  /**
   * Registers a listener that is called, and awaited, after key files of the data directory have changed. Returns a function that removes the listener.
   * Absent in a process without the API server role.
   */
  onChange?(listener: () => Promise<void>): () => void;
}
/**
 * Annotation of a Node whose kubelet serves with a certificate of the cluster's CA. The API server then accepts no other
 * certificate at that node's address.
 */
export const kubeletCertificate = { annotation: 'oarlock.dev/kubelet-certificate', ofCluster: 'cluster' } as const;

export const Keys = slot.one<ClusterKeys>('keys/v1');
