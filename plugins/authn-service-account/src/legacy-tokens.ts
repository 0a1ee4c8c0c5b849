import type { KeyObject } from 'node:crypto';
import { secrets, serviceAccounts } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { Secret, ServiceAccount } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { rejected, type AuthnResult } from '@oarlock/spi/authn';
import type { Client } from '@oarlock/spi/client';
import type { JWTPayload } from 'jose';
import { algorithmOf, isOfAnotherKey } from './signatures.ts';

export const legacyIssuer = 'kubernetes/serviceaccount';
/** Days, as `2026-01-31`: the last on which the token was used, and since when it is not taken any more because nobody used it (KEP-2799). */
const [lastUsed, invalidSince] = ['kubernetes.io/legacy-token-last-used', 'kubernetes.io/legacy-token-invalid-since'];

export interface LegacyTokensOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  keys(): readonly KeyObject[];
}

const refused = rejected('the service account token is not valid');
const invalidatedToken = rejected('the service account token has been taken back');
const claim = (payload: JWTPayload, name: string): string => {
  const value = payload[`kubernetes.io/serviceaccount/${name}`];
  return typeof value === 'string' ? value : '';
};

/** Tokens of Secrets (`kubernetes.io/service-account-token`): good for as long as the Secret holds them. */
export class LegacyTokens {
  readonly #options: LegacyTokensOptions;

  constructor(options: LegacyTokensOptions) {
    this.#options = options;
  }

  async verify(token: string): Promise<AuthnResult> {
    const payload = await this.#payload(token);
    if (payload === undefined) return refused;
    const [namespace, name, secretName] = [
      claim(payload, 'namespace'),
      claim(payload, 'service-account.name'),
      claim(payload, 'secret.name'),
    ];
    const user = `system:serviceaccount:${namespace}:${name}`;
    if (namespace === '' || name === '' || secretName === '' || payload.sub !== user) return refused;
    const [secret, account] = await Promise.all([
      this.#found(this.#options.client.get(secrets, { namespace, name: secretName })),
      this.#found(this.#options.client.get(serviceAccounts, { namespace, name })),
    ]);
    const held = Buffer.from(secret?.data?.['token'] ?? '', 'base64').toString('utf8');
    if (secret === undefined || secret.metadata?.deletionTimestamp !== undefined || held !== token) return invalidatedToken;
    const uid = claim(payload, 'service-account.uid');
    if (account?.metadata?.uid !== uid) return rejected('the service account of the token does not exist');
    if ((secret.metadata?.labels?.[invalidSince] ?? '') !== '')
      return rejected(
        `the token in secret ${namespace}/${secretName} for service account ${namespace}/${name} is marked as invalid: take the label ${invalidSince} off the secret to use it for now`,
      );
    await this.#used(secret);
    return {
      outcome: 'authenticated',
      identity: { name: user, uid, groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'] },
      annotations: { 'authentication.k8s.io/legacy-token': user, [kindOf(account, secretName)]: secretName },
    };
  }

  async #payload(token: string): Promise<JWTPayload | undefined> {
    const { jwtVerify } = await import('jose');
    const { keys, clock } = this.#options;
    for (const key of keys()) {
      try {
        const { payload } = await jwtVerify(token, key, {
          issuer: legacyIssuer,
          algorithms: [algorithmOf(key)],
          currentDate: new Date(clock.now()),
        });
        return payload;
      } catch (error) {
        if (!isOfAnotherKey(error)) return undefined;
      }
    }
    return undefined;
  }

  async #found<T>(asked: Promise<T>): Promise<T | undefined> {
    try {
      return await asked;
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  /** Notes the day. Who asks is let in even where that cannot be written. */
  async #used({ metadata }: Secret): Promise<void> {
    const { client, clock, log } = this.#options;
    const today = formatTime(clock.now()).slice(0, 10);
    if (metadata?.labels?.[lastUsed] === today) return;
    const { namespace = '', name = '', uid } = metadata ?? {};
    try {
      await client.patch(secrets, { namespace, name }, 'merge', { metadata: { uid, labels: { [lastUsed]: today } } });
    } catch (error) {
      log.warn({ secret: `${namespace}/${name}`, error: String(error) }, 'it could not be noted that the token of a Secret is used');
    }
  }
}

/** Made by the cluster for an account that names it, as it was before 1.24, or by somebody. */
const kindOf = ({ secrets: named = [] }: ServiceAccount, secret: string): string =>
  `authentication.k8s.io/legacy-token-${named.some(({ name }) => name === secret) ? 'autogenerated' : 'manual'}-secret`;
