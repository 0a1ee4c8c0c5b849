import { readFile } from 'node:fs/promises';
import type { Clock } from '@oarlock/primitives/clock';

/** Time in milliseconds for which a token from a file is used before the file is read again (client-go's value). */
const rereadMs = 60_000;

/** A source of bearer tokens. */
export interface TokenSource {
  /** Returns the token for the next request, or undefined if there is no token. */
  get(): Promise<string | undefined>;
  /** Handles a 401 response. Returns true if another token may be available. */
  handleUnauthorized(): boolean;
}

/** A bearer token that is static, or is read from a file that another process renews. */
export class BearerToken implements TokenSource {
  readonly #file: string | undefined;
  readonly #clock: Clock;
  #token: string | undefined;
  #readAt = Number.NEGATIVE_INFINITY;

  constructor({
    token,
    tokenFile,
    clock,
  }: { readonly token?: string | undefined; readonly tokenFile?: string | undefined; readonly clock: Clock }) {
    this.#token = token;
    this.#file = tokenFile;
    this.#clock = clock;
  }

  /** Returns the token. If the file cannot be read, returns the last token; rejects if no token was read before. */
  async get(): Promise<string | undefined> {
    if (this.#file === undefined || this.#clock.monotonic() - this.#readAt < rereadMs) return this.#token;
    try {
      this.#token = (await readFile(this.#file, 'utf8')).trim();
      this.#readAt = this.#clock.monotonic();
    } catch (error) {
      if (this.#token === undefined) throw error;
    }
    return this.#token;
  }

  /** Handles a 401 response: the file is read again before the next request. Returns false if the token is not from a file. */
  handleUnauthorized(): boolean {
    this.#readAt = Number.NEGATIVE_INFINITY;
    return this.#file !== undefined;
  }
}
