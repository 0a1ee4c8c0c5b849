import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from '@oarlock/primitives/clock';
import type { Identity } from '@oarlock/spi/authn';

/** How the user of a session was authenticated. */
export type SignInMethod = 'link' | 'credentials';

export interface Session {
  /** Names the session in audit events. Does not authenticate. */
  readonly id: string;
  readonly identity: Identity;
  readonly method: SignInMethod;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

export interface SessionTableOptions {
  readonly idleMs: number;
  readonly lifetimeMs: number;
  readonly maxSessions: number;
  readonly maxSessionsPerUser: number;
  readonly clock: Pick<Clock, 'now'>;
}

interface Entry extends Session {
  lastUsedAt: number;
}

/** Returns the digest under which a secret is stored, so that the memory of the process contains no usable secret. */
export const digestOf = (secret: string): string => createHash('sha256').update(secret).digest('base64');

/** Returns 256 random bits in base64url. */
export const newSecret = (): string => randomBytes(32).toString('base64url');

/** The sessions of the console, bounded in total and per user. */
export class SessionTable {
  readonly #options: SessionTableOptions;
  /** By digest of the secret; the least recently used session is first. */
  readonly #sessions = new Map<string, Entry>();

  constructor(options: SessionTableOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /**
   * Creates a session that ends at `notAfter` at the latest. Removes the least recently used session of a user with too many. Returns undefined if the
   * table is full.
   */
  create(
    identity: Identity,
    method: SignInMethod,
    notAfter = Infinity,
  ): { readonly secret: string; readonly session: Session } | undefined {
    const { lifetimeMs, maxSessions, maxSessionsPerUser, clock } = this.#options;
    const now = clock.now();
    this.#removeExpired(now);
    const own = [...this.#sessions].filter(
      ([
        ,
        {
          identity: { name },
        },
      ]) => name === identity.name,
    );
    if (own.length >= maxSessionsPerUser) this.#sessions.delete(own[0]?.[0] ?? '');
    if (this.#sessions.size >= maxSessions) return undefined;
    const secret = newSecret();
    const session: Entry = {
      id: randomBytes(6).toString('hex'),
      identity,
      method,
      expiresAt: Math.min(now + lifetimeMs, notAfter),
      lastUsedAt: now,
    };
    this.#sessions.set(digestOf(secret), session);
    return { secret, session };
  }

  /** Returns the session of a secret and marks it as used; undefined if there is none or it has expired. */
  use(secret: string): Session | undefined {
    const key = digestOf(secret);
    const entry = this.#sessions.get(key);
    if (entry === undefined) return undefined;
    this.#sessions.delete(key);
    const now = this.#options.clock.now();
    if (this.#isExpired(entry, now)) return undefined;
    entry.lastUsedAt = now;
    this.#sessions.set(key, entry);
    return entry;
  }

  /** Ends the session of a secret. */
  end(secret: string): void {
    this.#sessions.delete(digestOf(secret));
  }

  #isExpired({ expiresAt, lastUsedAt }: Entry, now: number): boolean {
    return now >= expiresAt || now >= lastUsedAt + this.#options.idleMs;
  }

  #removeExpired(now: number): void {
    for (const [key, entry] of this.#sessions) if (this.#isExpired(entry, now)) this.#sessions.delete(key);
  }
}
