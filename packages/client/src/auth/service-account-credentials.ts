import type { Resource } from '@oarlock/api/resource';
import { serviceAccounts } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { parseTime } from '@oarlock/api/values/time';
import type { TokenRequest } from '@oarlock/api/types/authentication-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Client } from '@oarlock/spi/client';
import type { Credential, CredentialSource } from './exec-credential.ts';

export interface ServiceAccountCredentialsOptions {
  /** A client that is allowed to create service accounts and tokens of this service account. */
  readonly client: Client;
  readonly clock: Clock;
  readonly namespace: string;
  readonly name: string;
}

const expirationSeconds = 3600;
/** Fraction of the token's lifetime that remains when a new token is requested. */
const renewBeforeFraction = 0.2;
// the subresource has a kind of its own
const tokens = serviceAccounts as unknown as Resource<TokenRequest>;

/** Tokens of a service account, requested with other credentials: the identity of controllers with `--use-service-account-credentials`. */
export class ServiceAccountCredentials implements CredentialSource {
  readonly #options: ServiceAccountCredentialsOptions;
  #token: string | undefined;
  /** When to renew the token, in milliseconds since the epoch. */
  #until = 0;
  #requesting: Promise<string> | undefined;

  constructor(options: ServiceAccountCredentialsOptions) {
    this.#options = options;
  }

  async get(): Promise<Credential> {
    if (this.#token !== undefined && this.#options.clock.now() < this.#until) return { token: this.#token };
    this.#requesting ??= this.#requestToken().finally(() => {
      this.#requesting = undefined;
    });
    return { token: await this.#requesting };
  }

  /** Handles a 401 response: the service account may have been deleted and created again. */
  handleUnauthorized(): boolean {
    this.#token = undefined;
    return true;
  }

  async #requestToken(): Promise<string> {
    const { client, clock, namespace, name } = this.#options;
    const request: TokenRequest = {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { audiences: [], expirationSeconds },
    };
    const createToken = () => client.create(tokens, request, { subresource: 'token', name: { namespace, name } });
    const { status } = await createToken().catch(async (error: unknown) => {
      if (!isStatus(error, 'NotFound')) throw error;
      await client.create(serviceAccounts, { metadata: { namespace, name } }).catch((failed: unknown) => {
        if (!isStatus(failed, 'AlreadyExists')) throw failed;
      });
      return createToken();
    });
    const token = status?.token;
    if (token === undefined || token === '') throw new Error(`the server returned no token for the service account ${namespace}/${name}`);
    const now = clock.now();
    const end = parseTime(status?.expirationTimestamp ?? '') ?? now + expirationSeconds * 1000;
    this.#until = end - (end - now) * renewBeforeFraction;
    this.#token = token;
    return token;
  }
}
