import type { Pod, Secret } from '@oarlock/api/types/core-v1';
import { errorText } from '@oarlock/primitives/error-text';
import { RuntimeError, type RegistryAuth } from '@oarlock/spi/runtime';
import type { ObjectCache } from '../api-objects/object-cache.ts';
import type { CredentialProviders } from './credential-provider/credential-providers.ts';
import { credentialsFor } from './image-pull-credentials.ts';
import { lookupCredentials, repositoryWithRegistry, type TrackedAuth } from './keyring/docker-keyring.ts';

export interface CredentialSources {
  readonly objects: Pick<ObjectCache, 'get'>;
  /** The credential provider plugins; undefined if none are configured. */
  readonly credentialProviders?: Pick<CredentialProviders, 'provide' | 'forgetPod'> | undefined;
}

export interface PodCredentials {
  readonly auths: readonly TrackedAuth[];
  /** Why credential providers returned none. */
  readonly failures: readonly string[];
}

export interface CredentialRequest {
  readonly image: string;
  readonly pod: Pod;
  readonly signal: AbortSignal;
}

/**
 * Returns the credentials that a pod has for an image: those of imagePullSecrets, then those of credential providers (the order of upstream's keyrings).
 * @throws Error if a Secret's content is malformed
 */
export async function podCredentials(
  { objects, credentialProviders }: CredentialSources,
  { image, pod, signal }: CredentialRequest,
): Promise<PodCredentials> {
  const found: Secret[] = [];
  for (const { name } of pod.spec?.imagePullSecrets ?? []) {
    const secret = name ? await objects.get('Secret', `${pod.metadata?.namespace}/${name}`) : undefined;
    if (secret) found.push(secret);
  }
  const repository = repositoryWithRegistry(image);
  const ofSecrets = credentialsFor(repository, found);
  if (credentialProviders === undefined) return { auths: ofSecrets, failures: [] };
  const { entries, failures } = await credentialProviders.provide(repository, pod, signal);
  return { auths: [...ofSecrets, ...lookupCredentials(repository, entries)], failures };
}

export interface PullResult {
  /** The id of the image. */
  readonly id: string;
  /** The credentials that the registry accepted; undefined for an anonymous pull. */
  readonly used: TrackedAuth | undefined;
}

/** Tries one after the other until the registry does not deny access. Without credentials, there is one anonymous try. */
export async function pullWithCredentials(
  { auths, failures }: PodCredentials,
  pull: (auth: RegistryAuth | undefined) => Promise<string>,
): Promise<PullResult> {
  let failure: unknown;
  for (const used of auths.length === 0 ? [undefined] : auths) {
    try {
      return { id: await pull(used?.auth), used };
    } catch (error) {
      failure = error;
      if (!(error instanceof RuntimeError && error.code === 'PermissionDenied')) break;
    }
  }
  if (failures.length === 0) throw failure;
  throw new Error(`${errorText(failure)}; ${failures.join('; ')}`, { cause: failure });
}
