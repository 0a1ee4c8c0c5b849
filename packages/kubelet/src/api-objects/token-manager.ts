import type { Resource } from '@oarlock/api/resource';
import { serviceAccounts } from '@oarlock/api/resources';
import { formatTime, parseTime } from '@oarlock/api/values/time';
import type { TokenRequest } from '@oarlock/api/types/authentication-v1';
import type { Pod } from '@oarlock/api/types/core-v1';
import { errorText } from '@oarlock/primitives/error-text';
import type { Clock } from '@oarlock/primitives/clock';
import type { Client } from '@oarlock/spi/client';
import { VolumeError, type ServiceAccountToken } from '@oarlock/spi/volume';

interface Token {
  readonly value: string;
  /** The expiration time, in RFC 3339. */
  readonly expires: string;
  readonly refreshAt: number;
}

export interface TokenOptions {
  readonly audience?: string;
  readonly expirationSeconds?: number;
  /** The uid of the service account: the API server issues no token for another one of the same name. */
  readonly serviceAccountUid?: string;
}

/** The fraction of its lifetime after which a token is refreshed. As upstream, a token is refreshed at least daily. */
const renewAfter = 0.8;
const longestMs = 24 * 3600 * 1000;

/** Requests and refreshes service account tokens that are bound to a pod (KEP-1205). */
export class TokenManager {
  readonly #client: Client;
  readonly #clock: Clock;
  readonly #byPod = new Map<string, Map<string, Token>>();

  constructor(client: Client, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  /**
   * Returns a service account token of the pod, from the cache if it need not be refreshed yet.
   * @throws VolumeError `Failed` if the API server issues no token and no earlier token is cached
   */
  async token(pod: Pod, request: TokenOptions): Promise<string> {
    return (await this.tokenWithExpiry(pod, request)).token;
  }

  /**
   * Returns a service account token of the pod and the token's expiration time.
   * @throws VolumeError `Failed` if the API server issues no token and no earlier token is cached
   */
  async tokenWithExpiry(pod: Pod, request: TokenOptions): Promise<ServiceAccountToken> {
    const { value, expires } = await this.#get(pod, request);
    return { token: value, expirationTimestamp: expires };
  }

  async #get(pod: Pod, { audience = '', expirationSeconds = 3600, serviceAccountUid = '' }: TokenOptions): Promise<Token> {
    const { namespace = '', name = '', uid = '' } = pod.metadata ?? {};
    const tokens = this.#byPod.get(uid) ?? new Map<string, Token>();
    const key = `${audience} ${expirationSeconds} ${serviceAccountUid}`;
    const known = tokens.get(key);
    const now = this.#clock.now();
    if (known && known.refreshAt > now) return known;
    const account = pod.spec?.serviceAccountName || 'default';
    try {
      const request: TokenRequest = {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        ...(serviceAccountUid !== '' && { metadata: { uid: serviceAccountUid } }),
        spec: {
          audiences: audience === '' ? [] : [audience],
          expirationSeconds,
          boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name, uid },
        },
      };
      // the kind of the subresource differs from that of the resource
      const resource = serviceAccounts as unknown as Resource<TokenRequest>;
      const { status } = await this.#client.create(resource, request, { subresource: 'token', name: { namespace, name: account } });
      const expires = parseTime(status?.expirationTimestamp ?? '') ?? now + expirationSeconds * 1000;
      const token: Token = {
        value: status?.token ?? '',
        expires: status?.expirationTimestamp ?? formatTime(expires),
        refreshAt: now + Math.min(longestMs, (expires - now) * renewAfter),
      };
      tokens.set(key, token);
      this.#byPod.set(uid, tokens);
      return token;
    } catch (cause) {
      const why = errorText(cause);
      if (known && (parseTime(known.expires) ?? 0) > now) {
        tokens.set(key, { ...known, refreshAt: now + 60_000 });
        return known;
      }
      throw new VolumeError('Failed', `failed to fetch token: ${why}`, { cause });
    }
  }

  /** Returns when the first of the pod's tokens must be refreshed; undefined if the pod has none. */
  dueAt(uid: string): number | undefined {
    const tokens = this.#byPod.get(uid);
    return tokens && Math.min(...[...tokens.values()].map(({ refreshAt }) => refreshAt));
  }

  forget(uid: string): void {
    this.#byPod.delete(uid);
  }
}
