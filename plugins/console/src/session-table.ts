import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from '@oarlock/primitives/clock';
import type { Credentials, Identity } from '@oarlock/spi/authn';

/** How the user of a session was authenticated. */
export type SignInMethod = 'link' | 'credentials' | 'oidc';

/** Keeps the credentials of a session valid. */
export interface CredentialsRenewal {
  /** Returns the newest credentials, which have expired if they cannot be renewed. @throws Error if it is unknown whether they can */
  credentials(): Promise<Credentials>;
  /** Gives the means of renewal up, where they were issued as well. Does not throw, and takes a bounded time. */
  end(): Promise<void>;
}

/** The user of a session, and how long the user may have it. */
export interface SessionUser {
  readonly identity: Identity;
  /** The credentials that authenticated the user, which end the session when they are no longer accepted; absent for a client in this process. */
  readonly credentials?: Credentials;
  /** Replaces the credentials before they expire. */
  readonly renewal?: CredentialsRenewal;
  /** The end of the session at the latest, in milliseconds since the epoch; Infinity if the credentials do not expire. */
  readonly notAfter: number;
}

export interface Session extends SessionUser {
  /** Names the session in audit events. Does not authenticate. */
  readonly id: string;
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
   * Creates a session, which its secret identifies. Removes the least recently used session of a user with too many. Returns undefined if the table is
   * full.
   */
  create(user: SessionUser, method: SignInMethod, secret: string): Session | undefined {
    const { lifetimeMs, maxSessions, maxSessionsPerUser, clock } = this.#options;
    const now = clock.now();
    this.#removeExpired(now);
    const own = [...this.#sessions].filter(([, { identity }]) => identity.name === user.identity.name);
    if (own.length >= maxSessionsPerUser) this.#sessions.delete(own[0]?.[0] ?? '');
    if (this.#sessions.size >= maxSessions) return undefined;
    const expiresAt = Math.min(now + lifetimeMs, user.notAfter);
    const session: Entry = { ...user, id: randomBytes(6).toString('hex'), method, expiresAt, lastUsedAt: now };
    this.#sessions.set(digestOf(secret), session);
    return session;
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

  /** Ends the session of a secret, and returns it; undefined if there is none. */
  end(secret: string): Session | undefined {
    const key = digestOf(secret);
    const entry = this.#sessions.get(key);
    this.#sessions.delete(key);
    return entry;
  }

  #isExpired({ expiresAt, lastUsedAt }: Entry, now: number): boolean {
    return now >= expiresAt || now >= lastUsedAt + this.#options.idleMs;
  }

  #removeExpired(now: number): void {
    for (const [key, entry] of this.#sessions) if (this.#isExpired(entry, now)) this.#sessions.delete(key);
  }
}
