import { createHash } from 'node:crypto';
import { serviceAccounts } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod } from '@oarlock/api/types/core-v1';
import { errorText } from '@oarlock/primitives/error-text';
import type { Client } from '@oarlock/spi/client';
import type { TokenManager } from '../../../api-objects/token-manager.ts';
import type { CredentialSource } from '../../keyring/docker-keyring.ts';
import type { CredentialProvider } from './config-schema.ts';

type TokenAttributes = NonNullable<CredentialProvider['tokenAttributes']>;

/** The service account of a pod as a plugin receives it. */
export interface ServiceAccountIdentity {
  readonly token: string;
  readonly annotations: Readonly<Record<string, string>>;
  /** Separates credentials in the cache: those of one service account or, with cacheType `Token`, those of one token. */
  readonly cacheKey: readonly unknown[];
  /** The digest of the token. */
  readonly tokenHash: string;
  readonly source: CredentialSource;
}

export interface ServiceAccountTokensOptions {
  readonly client: Client;
  readonly tokens: TokenManager;
}

/**
 * Returns the token and the annotations of a pod's service account. Undefined if it lacks a required annotation, which is how service accounts opt in.
 * @throws Error if the service account cannot be read or the API server issues no token, for example because the node may not request the audience
 */
export async function serviceAccountIdentity(
  pod: Pod,
  attributes: TokenAttributes,
  { client, tokens }: ServiceAccountTokensOptions,
): Promise<ServiceAccountIdentity | undefined> {
  const { namespace = '' } = pod.metadata ?? {};
  const name = pod.spec?.serviceAccountName ?? '';
  const account = await client.get(serviceAccounts, { namespace, name }).catch((error: unknown) => {
    const why = isStatus(error, 'NotFound') ? 'it does not exist' : errorText(error);
    throw new Error(`reading the service account ${namespace}/${name} failed: ${why}`, { cause: error });
  });
  const annotations = requestedAnnotations(account.metadata?.annotations ?? {}, attributes);
  if (annotations === undefined) return undefined;
  const serviceAccountUid = account.metadata?.uid ?? '';
  const token = await tokens.token(pod, { audience: attributes.serviceAccountTokenAudience, serviceAccountUid });
  const tokenHash = createHash('sha256').update(token).digest('hex');
  const parts = [namespace, name, serviceAccountUid, Object.entries(annotations)];
  const source: CredentialSource = { kind: 'ServiceAccount', uid: serviceAccountUid, namespace, name };
  return { token, annotations, tokenHash, cacheKey: attributes.cacheType === 'Token' ? [...parts, tokenHash] : parts, source };
}

/** Returns the annotations for the plugin, sorted by key; undefined if a required one is missing. */
function requestedAnnotations(
  annotations: Readonly<Record<string, string>>,
  { requiredServiceAccountAnnotationKeys: required, optionalServiceAccountAnnotationKeys: optional }: TokenAttributes,
): Readonly<Record<string, string>> | undefined {
  const has = (key: string) => Object.hasOwn(annotations, key);
  if (!required.every(has)) return undefined;
  const keys = [...required, ...optional.filter(has)].sort();
  return Object.fromEntries(keys.map((key) => [key, annotations[key] ?? '']));
}
