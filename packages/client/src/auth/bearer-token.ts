import { readFile } from 'node:fs/promises';
import type { Clock } from '@oarlock/primitives/clock';

/** How long a token from a file is used before the file is read again, in milliseconds (client-go's value). */
const rereadMs = 60_000;

/** A source of bearer tokens. */
export interface TokenSource {
  /** Returns the token for the next request; undefined if there is none. */
  get(): Promise<string | undefined>;
  /** Called when the server responded with 401. Returns true if another token may be available. */
  handleUnauthorized(): boolean;
}

/** A static token, or one in a file that another process renews. */
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

  /** Returns the token. A file that cannot be read leaves the last token in use; rejects if there is none yet. */
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

  /** Called after a 401: the file is read again before the next request. Returns false if there is no file. */
  handleUnauthorized(): boolean {
    this.#readAt = Number.NEGATIVE_INFINITY;
    return this.#file !== undefined;
  }
}
