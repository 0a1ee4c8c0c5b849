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
import { isDeleted } from './deletion.ts';
import { verifyWithKeys } from './token-verifier.ts';

export const legacyIssuer = 'kubernetes/serviceaccount';
/** Labels of token Secrets with a day, such as `2026-01-31`: the last use, and the day since which the unused token is invalid (KEP-2799). */
const [lastUsed, invalidSince] = ['kubernetes.io/legacy-token-last-used', 'kubernetes.io/legacy-token-invalid-since'];

export interface LegacyTokensOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  /** Returns the public keys that verify service account tokens. A key rotation changes the result, so the caller must not keep it. */
  keys(): readonly KeyObject[];
}

const invalidToken = rejected('the service account token is not valid');
const invalidatedToken = rejected('the service account token has been invalidated');
const claim = (payload: JWTPayload, name: string): string => {
  const value = payload[`kubernetes.io/serviceaccount/${name}`];
  return typeof value === 'string' ? value : '';
};

/** Verifies tokens of Secrets of type `kubernetes.io/service-account-token`: valid while the Secret contains them. */
export class LegacyTokens {
  readonly #options: LegacyTokensOptions;

  constructor(options: LegacyTokensOptions) {
    this.#options = options;
  }

  async verify(token: string): Promise<AuthnResult> {
    const payload = await this.#payload(token);
    if (payload === undefined) return invalidToken;
    const [namespace, name, secretName] = [
      claim(payload, 'namespace'),
      claim(payload, 'service-account.name'),
      claim(payload, 'secret.name'),
    ];
    const user = `system:serviceaccount:${namespace}:${name}`;
    if (namespace === '' || name === '' || secretName === '' || payload.sub !== user) return invalidToken;
    const [secret, account] = await Promise.all([
      this.#ifFound(this.#options.client.get(secrets, { namespace, name: secretName })),
      this.#ifFound(this.#options.client.get(serviceAccounts, { namespace, name })),
    ]);
    const storedToken = Buffer.from(secret?.data?.['token'] ?? '', 'base64').toString('utf8');
    if (secret === undefined || secret.metadata?.deletionTimestamp !== undefined || storedToken !== token) return invalidatedToken;
    const uid = claim(payload, 'service-account.uid');
    if (account?.metadata?.uid !== uid || isDeleted(account, this.#options.clock))
      return rejected('the service account of the token does not exist');
    if ((secret.metadata?.labels?.[invalidSince] ?? '') !== '')
      return rejected(
        `the token in secret ${namespace}/${secretName} for service account ${namespace}/${name} has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '${invalidSince}' label from the secret to temporarily allow use of this token`,
      );
    await this.#recordUse(secret);
    return {
      outcome: 'authenticated',
      identity: { name: user, uid, groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'] },
      annotations: { 'authentication.k8s.io/legacy-token': user, [annotationOf(account, secretName)]: secretName },
    };
  }

  #payload(token: string): Promise<JWTPayload | undefined> {
    const { keys, clock } = this.#options;
    return verifyWithKeys(token, keys(), { issuer: legacyIssuer, currentDate: new Date(clock.now()) });
  }

  async #ifFound<T>(object: Promise<T>): Promise<T | undefined> {
    try {
      return await object;
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  /** Writes the day of the last use to the Secret. A failure is logged and does not reject the token. */
  async #recordUse({ metadata }: Secret): Promise<void> {
    const { client, clock, log } = this.#options;
    const today = formatTime(clock.now()).slice(0, 10);
    if (metadata?.labels?.[lastUsed] === today) return;
    const { namespace = '', name = '', uid } = metadata ?? {};
    try {
      await client.patch(secrets, { namespace, name }, 'merge', { metadata: { uid, labels: { [lastUsed]: today } } });
    } catch (error) {
      log.warn({ secret: `${namespace}/${name}`, error: String(error) }, 'recording the last use of the token of a Secret failed');
    }
  }
}

/** Returns the audit annotation: the ServiceAccount lists Secrets that the token controller generated before 1.24, no others. */
const annotationOf = ({ secrets: listed = [] }: ServiceAccount, secret: string): string =>
  `authentication.k8s.io/legacy-token-${listed.some(({ name }) => name === secret) ? 'autogenerated' : 'manual'}-secret`;
