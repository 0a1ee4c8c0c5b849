import { createHash } from 'node:crypto';
import type { Clock } from '@oarlock/primitives/clock';
import { ExpiringCache } from '@oarlock/primitives/collections/expiring-cache';
import { abstained, type Authenticator, type AuthnResult, type Credentials } from '@oarlock/spi/authn';
import type { JsonClient } from '@oarlock/webhook-client/json-client';
import { resultOf, tokenReviewOf } from './token-review.ts';

const maxCachedTokens = 10_000;
const maxTokenLength = 65_536;

export interface WebhookAuthenticatorOptions {
  readonly webhook: JsonClient;
  readonly audiences: readonly string[];
  readonly timeoutMs: number;
  /** How long a successful authentication is cached, in milliseconds. */
  readonly cacheMs: number;
  /** How long a rejected token is cached, in milliseconds. */
  readonly rejectionCacheMs: number;
  readonly clock: Clock;
}

/** Authenticates bearer tokens with TokenReviews of a webhook. Results are cached by the hash of the token. */
export class WebhookAuthenticator implements Authenticator {
  readonly #options: WebhookAuthenticatorOptions;
  readonly #cache: ExpiringCache<string, AuthnResult>;
  /** The reviews in progress. Concurrent requests with the same token share one review. */
  readonly #reviews = new Map<string, Promise<AuthnResult>>();

  constructor(options: WebhookAuthenticatorOptions) {
    this.#options = options;
    this.#cache = new ExpiringCache({ max: maxCachedTokens, clock: options.clock });
  }

  async stop(): Promise<void> {
    this.#options.webhook.close();
  }

  async authenticate({ bearerToken, audiences = [] }: Credentials): Promise<AuthnResult> {
    if (bearerToken === undefined || bearerToken.length > maxTokenLength) return abstained;
    const required = audiences.length > 0 ? audiences : this.#options.audiences;
    const key = createHash('sha256').update(bearerToken).update(JSON.stringify(required)).digest('base64');
    const cached = this.#cache.get(key);
    if (cached !== undefined) return cached;
    let review = this.#reviews.get(key);
    if (review === undefined) {
      review = this.#review(bearerToken, required, key).finally(() => this.#reviews.delete(key));
      this.#reviews.set(key, review);
    }
    return review;
  }

  async #review(token: string, required: readonly string[], key: string): Promise<AuthnResult> {
    const { webhook, audiences, timeoutMs, cacheMs, rejectionCacheMs, clock } = this.#options;
    const { code, body } = await webhook.post(tokenReviewOf(token, required), timeoutMs);
    if (code < 200 || code > 299) throw new Error(`the authentication webhook returned status ${code}`);
    const result = resultOf(body, { required, implicit: audiences });
    this.#cache.set(key, result, clock.now() + (result.outcome === 'authenticated' ? cacheMs : rejectionCacheMs));
    return result;
  }
}
