import type { X509Certificate } from 'node:crypto';
import { slot } from '@oarlock/kernel/slot';

/** Who asks. `user.Info` of Kubernetes. */
export interface Identity {
  readonly name: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** What a request shows of its sender. Headers have lower-case names. */
export interface Credentials {
  readonly bearerToken?: string;
  /** The client certificate, already verified against the cluster's CA by TLS; absent when none was shown or it did not verify. */
  readonly certificate?: X509Certificate;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly remoteAddress?: string;
  /** For whom a token has to be meant, where that is not this server: a TokenReview asks on behalf of others. Answered in `audiences`. */
  readonly audiences?: readonly string[];
  readonly path: string;
}

/**
 * `authenticated` ends the chain. `abstained`: these credentials are not of my kind, ask the next. `rejected`: they are of my kind and wrong;
 * the chain goes on, and if nobody authenticates, the request is answered 401.
 */
export type AuthnResult =
  | {
      readonly outcome: 'authenticated';
      readonly identity: Identity;
      readonly audiences?: readonly string[];
      /** For the audit events of the request: how it is known, such as by a token that should not be used any more. */
      readonly annotations?: Readonly<Record<string, string>>;
    }
  | { readonly outcome: 'abstained' }
  | { readonly outcome: 'rejected'; readonly because: string };

export const abstained: AuthnResult = { outcome: 'abstained' };
export const rejected = (because: string): AuthnResult => ({ outcome: 'rejected', because });
export const authenticated = (identity: Identity): AuthnResult => ({ outcome: 'authenticated', identity });

export interface Authenticator {
  /** Throws only on faults of its own: the next is asked, and where none knows the sender, nobody is let in, not even as anonymous. */
  authenticate(credentials: Credentials): AuthnResult | Promise<AuthnResult>;
}

export const Authn = slot.chain<Authenticator>('authn/v1');

/** The name and groups of whoever nobody knows. */
export const anonymous: Identity = { name: 'system:anonymous', groups: ['system:unauthenticated'] };
