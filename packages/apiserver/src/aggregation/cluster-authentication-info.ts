import { X509Certificate } from 'node:crypto';

/** The data of ConfigMap kube-system/extension-apiserver-authentication: how extension API servers authenticate requests that API servers forward. */
export type AuthenticationConfigData = Readonly<Record<string, string>>;

/** What one API server publishes. Bundles are PEM. */
export interface ClusterAuthenticationInfo {
  /** CA of the client certificates of users. */
  readonly clientCa: string;
  /** CA of the front proxies. */
  readonly requestHeaderCa: string;
  /** Common names of the front proxies. */
  readonly requestHeaderAllowedNames: readonly string[];
}

/** Certificates (PEM) to remove from the lists, also if other servers published them. */
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
 * Adds what this API server publishes to what others published, as clusterauthenticationtrust does upstream: API servers with different CAs may
 * share a cluster. Drops certificates that have expired or are `removed`, and values that cannot be parsed.
 *
 * @param now milliseconds since the epoch
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

/** Returns the certificates of the first bundle that are not in the second, in PEM. */
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
