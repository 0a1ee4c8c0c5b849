import { readFile } from 'node:fs/promises';
import type { Clock } from '@oarlock/kernel/clock';

/** How long a token that was read from a file is used before the file is looked at again, as client-go does. Milliseconds. */
const rereadMs = 60_000;

/** Where the token of each request comes from. */
export interface TokenSource {
  /** Undefined when there is none. */
  get(): Promise<string | undefined>;
  /** The server did not take the token. Returns whether there may be another. */
  refused(): boolean;
}

/** A token that is given, or kept in a file that somebody renews. */
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

  /** Undefined when there is none. A file that cannot be read leaves the last token in use; rejects when there has been none. */
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

  /** The server did not take the token: look at the file at once. False when there is no file. */
  refused(): boolean {
    this.#readAt = Number.NEGATIVE_INFINITY;
    return this.#file !== undefined;
  }
}
