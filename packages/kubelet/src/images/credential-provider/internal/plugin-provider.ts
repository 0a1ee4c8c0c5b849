import type { Pod } from '@oarlock/api/types/core-v1';
import { durationMs } from '@oarlock/api/values/duration';
import type { Clock } from '@oarlock/primitives/clock';
import { ExpiringCache } from '@oarlock/primitives/collections/expiring-cache';
import { Semaphore } from '@oarlock/primitives/concurrency/semaphore';
import { patternOfServer, type KeyringEntry } from '../../keyring/docker-keyring.ts';
import { matchesImage } from '../../keyring/image-match.ts';
import type { CredentialProvider } from './config-schema.ts';
import type { CredentialProviderRequest, CredentialProviderResponse } from './credential-provider-api.ts';
import { serviceAccountIdentity, type ServiceAccountIdentity, type ServiceAccountTokensOptions } from './service-account-tokens.ts';

export interface PluginProviderOptions extends ServiceAccountTokensOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly run: (request: CredentialProviderRequest) => Promise<CredentialProviderResponse>;
}

const maxCachedResponses = 500;
/** The maximum number of processes of one plugin. */
const maxParallelRuns = 5;
const globalKey = 'global';

/** One credential provider: which images it is for, its cached responses, and its runs in progress. */
export class PluginProvider {
  readonly #provider: CredentialProvider;
  readonly #options: PluginProviderOptions;
  readonly #cache: ExpiringCache<string, readonly KeyringEntry[]>;
  readonly #runs: Semaphore;
  /** The runs in progress, which concurrent pulls of an image share. */
  readonly #running = new Map<string, Promise<readonly KeyringEntry[]>>();

  constructor(provider: CredentialProvider, options: PluginProviderOptions) {
    this.#provider = provider;
    this.#options = options;
    this.#cache = new ExpiringCache({ max: maxCachedResponses, clock: options.clock });
    this.#runs = new Semaphore(maxParallelRuns);
  }

  get name(): string {
    return this.#provider.name;
  }

  matches(repository: string): boolean {
    return this.#provider.matchImages.some((pattern) => matchesImage(pattern, repository));
  }

  /** Returns the credentials for a repository that a pod pulls, from the cache or the plugin. @throws Error without secrets if there is no valid response */
  async provide(repository: string, pod: Pod): Promise<readonly KeyringEntry[]> {
    const { tokenAttributes } = this.#provider;
    if (tokenAttributes === undefined) return this.#lookup(repository, undefined);
    if ((pod.spec?.serviceAccountName ?? '') === '')
      return tokenAttributes.requireServiceAccount === true ? [] : this.#lookup(repository, undefined);
    const identity = await serviceAccountIdentity(pod, tokenAttributes, this.#options);
    return identity === undefined ? [] : this.#lookup(repository, identity);
  }

  #lookup(repository: string, identity: ServiceAccountIdentity | undefined): Promise<readonly KeyringEntry[]> | readonly KeyringEntry[] {
    for (const base of [repository, registryOf(repository), globalKey]) {
      const cached = this.#cache.get(cacheKey(base, identity));
      if (cached !== undefined) return cached;
    }
    const key = JSON.stringify([repository, identity?.tokenHash, identity?.cacheKey]);
    const running = this.#running.get(key);
    if (running !== undefined) return running;
    const started = this.#runs
      .run(this.#options.signal, () => this.#run(repository, identity))
      .finally(() => {
        this.#running.delete(key);
      });
    this.#running.set(key, started);
    return started;
  }

  async #run(repository: string, identity: ServiceAccountIdentity | undefined): Promise<readonly KeyringEntry[]> {
    const { defaultCacheDuration = '0', tokenAttributes } = this.#provider;
    const response = await this.#options.run({
      image: repository,
      ...(identity !== undefined && { serviceAccountToken: identity.token, serviceAccountAnnotations: identity.annotations }),
    });
    const auth = Object.entries(response.auth ?? {});
    // cached credentials are used for other pods of the service account, after the pod of the token
    if (identity !== undefined && tokenAttributes?.cacheType !== 'Token' && auth.some(([, { password }]) => password === identity.token))
      throw new Error('it returned the service account token, which only cacheType "Token" allows');
    const source = identity?.source;
    const entries = auth.map(([key, { username, password }]) => ({ pattern: patternOfServer(key), auth: { username, password }, source }));
    const base = { Image: repository, Registry: registryOf(repository), Global: globalKey }[response.cacheKeyType];
    const cacheMs = response.cacheDuration ?? durationMs(defaultCacheDuration);
    this.#cache.set(cacheKey(base, identity), entries, this.#options.clock.now() + cacheMs);
    return entries;
  }
}

const registryOf = (repository: string): string => repository.split('/')[0] ?? '';

/** Returns a key that no other combination of values has. */
const cacheKey = (base: string, identity: ServiceAccountIdentity | undefined): string => JSON.stringify([base, identity?.cacheKey]);
