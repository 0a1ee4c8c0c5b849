import type { Clock } from '@oarlock/primitives/clock';
import { digestOf, newSecret, type SessionUser } from './session-table.ts';

/** The maximum number of unused links, and of those of one user. The oldest link becomes invalid when another is created. */
const maxLinks = 1000;
const maxLinksPerUser = 10;

interface Link {
  readonly user: SessionUser;
  readonly expiresAt: number;
}

/** The secrets of unused sign-in links. Each secret is valid for one sign-in and a short time. */
export class SignInLinks {
  readonly #lifetimeMs: number;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #links = new Map<string, Link>();

  constructor(lifetimeMs: number, clock: Pick<Clock, 'now'>) {
    this.#lifetimeMs = lifetimeMs;
    this.#clock = clock;
  }

  /** Creates the secret of a link that signs in as this user. */
  create(user: SessionUser): { readonly secret: string; readonly expiresAt: number } {
    // a user's links do not end those of others
    const own = [...this.#links].filter(([, link]) => link.user.identity.name === user.identity.name);
    const [first] = this.#links.keys();
    const oldest = own.length >= maxLinksPerUser ? own[0]?.[0] : this.#links.size >= maxLinks ? first : undefined;
    if (oldest !== undefined) this.#links.delete(oldest);
    const secret = newSecret();
    const expiresAt = Math.min(this.#clock.now() + this.#lifetimeMs, user.notAfter);
    this.#links.set(digestOf(secret), { user, expiresAt });
    return { secret, expiresAt };
  }

  /** Returns the user of a link and makes the link invalid; undefined if the link is unknown, used or expired. */
  redeem(secret: string): SessionUser | undefined {
    const key = digestOf(secret);
    const link = this.#links.get(key);
    this.#links.delete(key);
    return link === undefined || this.#clock.now() >= link.expiresAt ? undefined : link.user;
  }
}
