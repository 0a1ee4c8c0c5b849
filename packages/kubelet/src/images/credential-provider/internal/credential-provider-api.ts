import { parseDuration } from '@oarlock/api/values/duration';
import { z } from 'zod';

/** The versions of the API between the kubelet and plugins (credentialprovider.kubelet.k8s.io). */
export const credentialProviderV1 = 'credentialprovider.kubelet.k8s.io/v1';
export const credentialProviderVersions: readonly string[] = [
  credentialProviderV1,
  'credentialprovider.kubelet.k8s.io/v1beta1',
  'credentialprovider.kubelet.k8s.io/v1alpha1',
];

export interface CredentialProviderRequest {
  /** The repository of the image, without tag and digest. */
  readonly image: string;
  readonly serviceAccountToken?: string;
  readonly serviceAccountAnnotations?: Readonly<Record<string, string>>;
}

const cacheDuration = z.string().transform((text, context) => {
  try {
    return Number(parseDuration(text)) / 1e6;
  } catch {
    context.addIssue({ code: 'custom', message: 'invalid duration' });
    return z.NEVER;
  }
});
const responseSchema = z.strictObject({
  kind: z.literal('CredentialProviderResponse'),
  apiVersion: z.string(),
  cacheKeyType: z.enum(['Image', 'Registry', 'Global']),
  /** How long the credentials may be cached, in milliseconds. Null and absent: the default of the provider. */
  cacheDuration: cacheDuration.nullish(),
  auth: z.record(z.string(), z.strictObject({ username: z.string().default(''), password: z.string().default('') })).nullish(),
});
export type CredentialProviderResponse = z.output<typeof responseSchema>;

/** Encodes a request for a plugin. */
export const encodeRequest = (request: CredentialProviderRequest, apiVersion: string): string =>
  JSON.stringify({ kind: 'CredentialProviderRequest', apiVersion, ...request });

/** Decodes a plugin's response. @throws Error without a part of the response, which has credentials */
export function decodeResponse(text: string, apiVersion: string): CredentialProviderResponse {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error('its response is not JSON'); // the cause would quote the response
  }
  const result = responseSchema.safeParse(value);
  // the version of a response decides how to read the rest
  const actual = (value as { readonly apiVersion?: unknown } | null)?.apiVersion;
  if (result.data?.apiVersion === apiVersion) return result.data;
  if (actual !== apiVersion) {
    const other = typeof actual === 'string' && credentialProviderVersions.includes(actual) ? `"${actual}"` : 'another one';
    throw new Error(`the apiVersion of its response must be "${apiVersion}", but is ${other}`);
  }
  const fields = new Set(
    result.error?.issues.map(({ path }) => path[0]).filter((field) => Object.hasOwn(responseSchema.shape, field ?? '')),
  );
  throw new Error(`its response is not a valid CredentialProviderResponse${fields.size === 0 ? '' : `: see ${[...fields].join(', ')}`}`);
}
