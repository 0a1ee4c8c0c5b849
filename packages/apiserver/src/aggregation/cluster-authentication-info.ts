import { X509Certificate } from 'node:crypto';

/**
 * The data of the ConfigMap kube-system/extension-apiserver-authentication, by which extension API servers authenticate requests that API
 * servers forward.
 */
export type AuthenticationConfigData = Readonly<Record<string, string>>;

/** The part of the authentication data that one API server publishes. CA bundles are in PEM. */
export interface ClusterAuthenticationInfo {
  /** The CA bundle of the client certificates of users. */
  readonly clientCa: string;
  /** The CA bundle of the client certificates of front proxies. */
  readonly requestHeaderCa: string;
  /** The common names that the client certificates of front proxies must have. */
  readonly requestHeaderAllowedNames: readonly string[];
}

/** Certificates in PEM that are removed from the bundles, even if another API server published them. */
export interface RemovedCertificates {
  readonly clientCa: string;
  readonly requestHeaderCa: string;
}

const keys = {
  clientCa: 'client-ca-file',
  requestHeaderCa: 'requestheader-client-ca-file',
  allowedNames: 'requestheader-allowed-names',
} as const;
const headers: Readonly<Record<string, readonly string[]>> = {
  'requestheader-extra-headers-prefix': ['X-Remote-Extra-'],
  'requestheader-group-headers': ['X-Remote-Group'],
  'requestheader-uid-headers': ['X-Remote-Uid'],
  'requestheader-username-headers': ['X-Remote-User'],
};
const none: RemovedCertificates = { clientCa: '', requestHeaderCa: '' };

/**
 * Merges the data of this API server into the published data, as clusterauthenticationtrust does upstream: API servers with different CAs
 * can share a cluster. Removes expired certificates, the certificates in `removed`, and values that cannot be parsed.
 * @param now milliseconds since the Unix epoch
 */
export function mergeAuthenticationInfo(
  existing: AuthenticationConfigData,
  own: ClusterAuthenticationInfo,
  { removed = none, now }: { readonly removed?: RemovedCertificates; readonly now: number },
): AuthenticationConfigData {
  const union = (key: string, values: readonly string[]) => JSON.stringify([...new Set([...stringsIn(existing[key]), ...values])]);
  const bundle = (key: 'clientCa' | 'requestHeaderCa') => mergeBundles([existing[keys[key]] ?? '', own[key]], removed[key], now);
  return {
    [keys.clientCa]: bundle('clientCa'),
    [keys.requestHeaderCa]: bundle('requestHeaderCa'),
    [keys.allowedNames]: union(keys.allowedNames, own.requestHeaderAllowedNames),
    ...Object.fromEntries(Object.entries(headers).map(([key, values]) => [key, union(key, values)])),
  };
}

/** Returns the certificates of `bundle` that `others` does not contain, in PEM. */
export function certificatesWithout(bundle: string, others: string): string {
  const excluded = new Set(certificatesIn(others).map(({ fingerprint256 }) => fingerprint256));
  return certificatesIn(bundle)
    .filter(({ fingerprint256 }) => !excluded.has(fingerprint256))
    .join('');
}

function mergeBundles(bundles: readonly string[], removed: string, now: number): string {
  const certificates = new Map(bundles.flatMap(certificatesIn).map((certificate) => [certificate.fingerprint256, certificate]));
  for (const { fingerprint256 } of certificatesIn(removed)) certificates.delete(fingerprint256);
  return [...certificates.values()].filter(({ validTo }) => Date.parse(validTo) >= now).join('');
}

const pem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
function certificatesIn(bundle: string): readonly X509Certificate[] {
  return (bundle.match(pem) ?? []).flatMap((text) => {
    try {
      return [new X509Certificate(text)];
    } catch {
      return []; // not a certificate: another writer of the ConfigMap must not keep this API server from publishing
    }
  });
}

function stringsIn(text: string | undefined): readonly string[] {
  try {
    const list: unknown = JSON.parse(text ?? '[]');
    return Array.isArray(list) ? list.filter((value) => typeof value === 'string') : [];
  } catch {
    return []; // not JSON: replaced
  }
}
