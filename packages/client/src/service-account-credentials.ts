import type { Resource } from '@oarlock/api/resource';
import { serviceAccounts } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { parseTime } from '@oarlock/api/time';
import type { TokenRequest } from '@oarlock/api/types/authentication-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { Client } from '@oarlock/spi/client';
import type { Credential, CredentialSource } from './exec-credential.ts';

export interface ServiceAccountCredentialsOptions {
  /** May make service accounts, and tokens of this one. */
  readonly client: Client;
  readonly clock: Clock;
  readonly namespace: string;
  readonly name: string;
}

const expirationSeconds = 3600;
/** What of its life is left of a token when another is asked for. */
const leftPart = 0.2;
// the subresource has a kind of its own
const tokens = serviceAccounts as unknown as Resource<TokenRequest>;

/** Tokens of a service account, asked for with other credentials: how loops are who they are with `--use-service-account-credentials`. */
export class ServiceAccountCredentials implements CredentialSource {
  readonly #options: ServiceAccountCredentialsOptions;
  #token: string | undefined;
  /** Of the wall clock, in milliseconds. */
  #until = 0;
  #asking: Promise<string> | undefined;

  constructor(options: ServiceAccountCredentialsOptions) {
    this.#options = options;
  }

  async get(): Promise<Credential> {
    if (this.#token !== undefined && this.#options.clock.now() < this.#until) return { token: this.#token };
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    return { token: await this.#asking };
  }

  /** The account may have been made anew. */
  refused(): boolean {
    this.#token = undefined;
    return true;
  }

  async #ask(): Promise<string> {
    const { client, clock, namespace, name } = this.#options;
    const request: TokenRequest = {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { audiences: [], expirationSeconds },
    };
    const ask = () => client.create(tokens, request, { subresource: 'token', name: { namespace, name } });
    const { status } = await ask().catch(async (error: unknown) => {
      if (!isStatus(error, 'NotFound')) throw error;
      await client.create(serviceAccounts, { metadata: { namespace, name } }).catch((failed: unknown) => {
        if (!isStatus(failed, 'AlreadyExists')) throw failed;
      });
      return ask();
    });
    const token = status?.token;
    if (token === undefined || token === '') throw new Error(`the server gave no token for the service account ${namespace}/${name}`);
    const now = clock.now();
    const end = parseTime(status?.expirationTimestamp ?? '') ?? now + expirationSeconds * 1000;
    this.#until = end - (end - now) * leftPart;
    this.#token = token;
    return token;
  }
}
